"""Rekindle: PyTorch for the machine you have.

The public library is :mod:`rekindle.api`; the command line is :mod:`rekindle.cli.main`.
"""

__version__ = "0.2.0"
