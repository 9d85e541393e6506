"""Disk, asked phase by phase and file system by file system: what each leaves there, and the first that cannot end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rekindle.facts import Facts
from rekindle.model.costs import DiskPhase
from rekindle.model.size import GIB
from rekindle.model.version import compare, key

# device (None where it cannot be told), free bytes; None where the place does not answer
Room = tuple[int | None, int]


class Demand(NamedTuple):
    """What a phase puts where; ``bytes`` is None where nobody measured it, and then nothing is held against it."""

    phase: str
    place: str
    bytes: int | None = None


class Shortage(NamedTuple):
    """``demand`` does not fit: ``before`` is what earlier phases put on the same file system, ``free`` what it has."""

    demand: Demand
    before: int
    free: int


def measured(
    phase: DiskPhase, project: str, torch: str, facts: Facts, *, gpu: bool, origin: str | None = None
) -> int | None:
    """What this phase left on the disk where it was measured; None where it was not."""
    rows = [
        row
        for row in facts.costs.disk
        if (row.phase, row.project) == (phase, project)
        and compare(torch, row.since) >= 0
        and row.backend in (None, "gpu" if gpu else "cpu")
        and row.origin in (None, origin)
    ]
    return int(max(rows, key=lambda row: key(row.since)).gib * GIB) if rows else None


def first_shortage(demands: Iterable[Demand], room: Callable[[str], Room | None]) -> Shortage | None:
    """The first phase that cannot end. All of them stay on the disk, so those on one file system add up; a place whose
    file system cannot be told counts by itself."""
    used: dict[object, int] = {}
    for demand in demands:
        found = room(demand.place)
        if found is None or demand.bytes is None:
            continue
        device, free = found
        disk = demand.place if device is None else device
        before = used.get(disk, 0)
        if before + demand.bytes > free:
            return Shortage(demand, before, free)
        used[disk] = before + demand.bytes
    return None
