"""What a build and an installed torch take: memory per compiler, disk, and the jobs that fit."""

from __future__ import annotations

from rekindle.compat.backend import Name
from rekindle.facts import Facts
from rekindle.model.costs import BuildCost


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
