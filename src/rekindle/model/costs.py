"""Rows of the facts base about what a torch costs: disk, memory and time, to use it and to build it."""

from __future__ import annotations

from typing import Literal

from rekindle.model.facts import Row

DiskPhase = Literal["fetch", "environment", "compile", "wheel", "bundle", "verify"]


class UseCost(Row, frozen=True, kw_only=True):
    """What an installed torch needs."""

    disk_gib: float


class DiskCost(Row, frozen=True, kw_only=True):
    """What one phase of a build leaves on the disk, as it was measured: never what to have, always at least this.

    ``origin`` is where the sources come from, where that matters. A row counts from torch ``since`` on.
    """

    phase: DiskPhase
    project: str
    since: str
    gib: float
    backend: Literal["cpu", "gpu"] | None = None
    origin: str | None = None


class BuildCost(Row, frozen=True, kw_only=True):
    """What a build takes; ``job_gib`` is a large compiler, ``largest_gib`` the largest of all, which one machine must
    hold even alone; ``arch_minutes`` come on top for each GPU architecture. ``unoptimised_minutes`` are what the same
    takes at -O0, where that is known."""

    backend: Literal["cpu", "gpu"]
    since: str
    disk_gib: float
    memory_gib: float
    job_gib: float
    largest_gib: float
    cpu_minutes: int
    arch_minutes: int = 0
    unoptimised_minutes: int | None = None
