"""Rekindle: PyTorch for the machine you have.

The public library is :mod:`rekindle.api`; the command line is :mod:`rekindle.cli.main`. ``rekindle.configure()`` sets
what this machine's torch needs, in a process that is about to import it.
"""

from __future__ import annotations

__version__ = "0.2.0"


def configure(*, quiet: bool = False) -> dict[str, str]:
    """Set the variables that torch needs on this machine, before it is imported; those that were set here.

    See :func:`rekindle.api.variables.configure`.
    """
    import importlib

    # By name: this file lies below every room, and the room that does it above most of them.
    found: dict[str, str] = importlib.import_module("rekindle.api.variables").configure(quiet=quiet)
    return found
