"""Drivers in CUDA's own numbers: the newest CUDA a driver knows, and where a card's last driver stops.

Installers that choose wheels by GPU ask the driver for this number instead of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.compat.driver import Side, branch, card_drivers, reaches, toolkit_driver
from rekindle.facts import Facts
from rekindle.model.arch import Sm
from rekindle.model.version import key


def newest_cuda(driver: str, side: Side, facts: Facts) -> str | None:
    """The newest CUDA whose own driver is no newer than this one; None for a driver older than our tables."""
    return _newest(side, facts, lambda own: reaches(driver, own))


def least_cuda(cuda: str, side: Side, facts: Facts) -> str | None:
    """The CUDA number a driver must at least say to run this toolkit's machine code (minor-version compatibility)."""
    floor = toolkit_driver(cuda, side, facts).floor
    return newest_cuda(floor, side, facts) if floor else None


def last_cuda(sm: Sm, side: Side, facts: Facts) -> str | None:
    """The CUDA number that the last driver branch of a card says; None where NVIDIA still drives it."""
    drivers = card_drivers(sm, side, facts)
    if drivers.last is None:
        return None
    # On Windows a branch goes by higher numbers too (R470 up to 475): it ends where the next one begins.
    below = drivers.below or drivers.last + 1
    return _newest(side, facts, lambda own: branch(own) < below)


def _newest(side: Side, facts: Facts, fits: Callable[[str], bool]) -> str | None:
    """The newest CUDA whose own driver fits."""
    drivers = ((cuda, toolkit_driver(cuda, side, facts).own) for cuda in facts.toolkits)
    return max((_minor(cuda) for cuda, own in drivers if own is not None and fits(own)), key=key, default=None)


def _minor(cuda: str) -> str:
    return ".".join(cuda.split(".")[:2])
