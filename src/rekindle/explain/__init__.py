"""From a wall of log to cause and fix.

Bytes flow through :mod:`.reading` (encodings, colours, line ends), :mod:`.scan` (where do the fixed words of
any rule stand), :mod:`.engine` (rules on the text around those words) and :mod:`.judge` (which of the
findings is the root). What is known about each cause lies in ``rules/*.toml``.
"""
