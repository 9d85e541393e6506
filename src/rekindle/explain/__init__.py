"""From a wall of log to cause and fix; what is known about each cause lies in ``rules/*.toml``."""
