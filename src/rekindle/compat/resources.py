"""What a build and an installation take: memory, jobs, disk."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rekindle.compat.answer import Name
from rekindle.facts import Facts
from rekindle.model.spoken import GIB
from rekindle.model.supply import BuildCost, DiskPhase
from rekindle.model.version import compare, key


def build_cost(torch: str | None, backend: Name, facts: Facts) -> BuildCost:
    """What building a release takes; the newest where none is named."""
    return facts.build_cost(torch or facts.releases[0], gpu=backend != "cpu")


def use_disk_gib(backend: Name, facts: Facts) -> float:
    """The disk that an installed wheel takes, with what it asks for."""
    return facts.costs.use[backend].disk_gib


def jobs_for(memory_gib: float | None, threads: int, cost: BuildCost, swap_gib: float | None = None) -> int:
    """How many compilers fit at once: one at least, half of the swap counts, no more than threads."""
    if memory_gib is None:
        return max(1, threads)
    room = memory_gib + (swap_gib or 0.0) / 2
    return max(1, min(threads, int(room // cost.job_gib)))


def memory_fits(memory_gib: float | None, swap_gib: float | None, cost: BuildCost) -> bool | None:
    """Does the largest single compilation fit, with swap? None where the memory is not known."""
    return None if memory_gib is None else memory_gib + (swap_gib or 0.0) >= cost.largest_gib


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


def measured_bytes(
    phase: DiskPhase, project: str, torch: str, facts: Facts, *, gpu: bool, origin: str | None = None
) -> int | None:
    """What this phase left on the disk where it was measured; None where it was not."""
    kind = "gpu" if gpu else "cpu"
    about = [row for row in facts.costs.disk if (row.phase, row.project) == (phase, project)]
    alike = [row for row in about if row.backend in (None, kind) and row.origin in (None, origin)]
    rows = [row for row in alike if compare(torch, row.since) >= 0]
    return int(max(rows, key=lambda row: key(row.since)).gib * GIB) if rows else None


def first_shortage(demands: Iterable[Demand], room: Callable[[str], Room | None]) -> Shortage | None:
    """The first phase that cannot end. All of them stay on the disk, so those on one file system add up; a place whose
    file system cannot be told counts by itself."""
    used: dict[object, int] = {}
    for demand in demands:
        reply = room(demand.place)
        if reply is None or demand.bytes is None:
            continue
        device, free = reply
        disk = demand.place if device is None else device
        before = used.get(disk, 0)
        if before + demand.bytes > free:
            return Shortage(demand, before, free)
        used[disk] = before + demand.bytes
    return None
