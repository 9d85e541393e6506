"""Is there room for each phase, where it writes? Asked before the first, of every file system."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rekindle.build.resume import START_FREE_BYTES, has_objects
from rekindle.compat.resources import Demand, first_shortage, measured
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.free_space import free_space
from rekindle.host.protocol import Host
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.model.spoken import GIB, spoken_bytes
from rekindle.model.supply import DiskPhase

# In the order in which they fill a disk.
_PHASES: tuple[DiskPhase, ...] = ("fetch", "environment", "compile", "wheel", "bundle", "verify")


def demands_of(plan: Plan, places: Mapping[DiskPhase, Path], tree: SourceTree | None) -> tuple[Demand, ...]:
    """What each phase that has a place will put there. What is there already is not put there again."""
    facts = load_facts()
    release = (plan.torch or facts.releases[0]).split("+")[0]
    origin = plan.build.origin if plan.build else None
    found = []
    for phase in _PHASES:
        if phase not in places or (phase == "fetch" and tree is not None):
            continue
        if phase == "compile" and _begun(tree):
            continue
        size = measured(phase, plan.project, release, facts, gpu=bool(plan.cuda or plan.rocm), origin=origin)
        found.append(Demand(phase, str(places[phase]), size))
    return tuple(found)


def check_disk(host: Host, plan: Plan, places: Mapping[DiskPhase, Path], tree: SourceTree | None) -> Iterator[Check]:
    """Fails where a phase would not fit by what was measured; a warning where the plan expects more than is free."""
    assert plan.build is not None
    demands = demands_of(plan, places, tree)
    room = free_space(host)
    here = room(str(places["compile"]))
    if here is not None and here[1] < START_FREE_BYTES:
        raise BadInput(f"only {here[1] / GIB:.1f} GiB are free where {places['compile']} lies", remedy=_fix("compile"))
    short = first_shortage(demands, room)
    if short is not None:
        before = f" beside {spoken_bytes(short.before)} of earlier phases" if short.before else ""
        raise BadInput(
            f"{short.demand.phase} needs {spoken_bytes(short.demand.bytes or 0)}{before} at {short.demand.place}, and"
            f" {spoken_bytes(short.free)} are free there",
            remedy=_fix(short.demand.phase),
        )
    if here is None:
        return
    want = plan.build.disk_gib
    tight = bool(want and here[1] < want * GIB) and not _begun(tree)
    told = ", ".join(
        f"{one.phase} {spoken_bytes(one.bytes) if one.bytes is not None else 'unknown'}" for one in demands
    )
    yield Check(
        id="disk",
        status="warn" if tight else "ok",
        needed_for=("build",),
        found=f"{spoken_bytes(here[1])} free where {places['compile']} lies" + (f" ({told})" if told else ""),
        want=f"{want:.0f} GiB" if want else None,
    )


def _begun(tree: SourceTree | None) -> bool:
    """A build that continues: how much is left of it is not known."""
    return tree is not None and has_objects(Path(tree.root) / "build")


def _fix(phase: str) -> str:
    other = "name a place on another disk with --venv DIR" if phase == "verify" else "work on another: --workspace DIR"
    return f"make room there ('rekindle clean' removes what earlier runs left), or {other}"
