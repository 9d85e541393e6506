"""Drivers in CUDA's own numbers: the newest CUDA a driver knows, and where a card's last driver stops.

Installers that choose wheels by GPU ask the driver for this number instead of its own.
"""

from __future__ import annotations

from rekindle.compat.driver import Side, card_drivers, reaches, toolkit_driver
from rekindle.facts import Facts
from rekindle.model.arch import Sm
from rekindle.model.version import key


def newest_cuda(driver: str, side: Side, facts: Facts) -> str | None:
    """The newest CUDA whose own driver is no newer than this one; None for a driver older than our tables."""
    known = [
        cuda
        for cuda in facts.toolkits
        if (own := toolkit_driver(cuda, side, facts).own) is not None and reaches(driver, own)
    ]
    return max((_minor(cuda) for cuda in known), key=key, default=None)


def least_cuda(cuda: str, side: Side, facts: Facts) -> str | None:
    """The CUDA number a driver must at least say to run this toolkit's machine code (minor-version compatibility)."""
    floor = toolkit_driver(cuda, side, facts).floor
    return newest_cuda(floor, side, facts) if floor else None


def last_cuda(sm: Sm, side: Side, facts: Facts) -> str | None:
    """The CUDA number that the last driver branch of a card says; None where NVIDIA still drives it."""
    last = card_drivers(sm, side, facts).last
    return newest_cuda(str(last), side, facts) if last is not None else None


def _minor(cuda: str) -> str:
    return ".".join(cuda.split(".")[:2])
