"""``python -m rekindle`` is the same as the ``rekindle`` command."""

from rekindle.cli.main import entry

if __name__ == "__main__":
    entry()
