"""Where a build happens: free space, memory, and a path that every tool on the way reads as it is written."""

from collections.abc import Mapping
from pathlib import Path

from rekindle.compat import Name, backend_of
from rekindle.compat.resources import Demand, build_cost, first_shortage, measured_bytes
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.formats.ninja import has_objects
from rekindle.host.files import free_space
from rekindle.host.protocol import Host
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.model.spoken import GIB, spoken_bytes
from rekindle.model.supply import BuildCost, DiskPhase
from rekindle.readiness.case import TO_BOTH, TO_BUILD, Checks, ExaminedMachine, PlannedBuild, build_check

# Below this nothing is started: configure alone would not end.
START_FREE_BYTES = 2 << 30
# CMake expands $ and <>, and ends lists at ;, ninja expands $, and PATH ends at :. Quotes and backslashes end strings.
MEANINGFUL = '$;:"\\<>'
# torch's build tree adds up to some 180 characters; without long paths 260 is the end.
_ROOM_FOR_THE_TREE = 60
# In the order in which they fill a disk.
_PHASES: tuple[DiskPhase, ...] = ("fetch", "environment", "compile", "wheel", "bundle", "verify")


def build_needs() -> BuildCost:
    """What a build of the newest torch takes, its GPU part included, while nothing is known of the plan."""
    return build_cost(None, "cuda", load_facts())


def memory_of_machine(case: ExaminedMachine) -> Checks:
    """Less than a build likes is no end: it takes fewer jobs."""
    memory, least = case.machine.memory_gib, build_needs().memory_gib
    if memory is None:
        yield build_check("memory", "skip", want=f"{least:g} GiB")
        return
    limit = f" (limit of {case.machine.memory_limited_by})" if case.machine.memory_limited_by else ""
    found, want = f"{memory:g} GiB{limit}", f"{least:g} GiB or more"
    fix = None if memory >= least else case.fix("memory")
    yield build_check("memory", "ok" if memory >= least else "warn", found, want=want, fix=fix)


def disk_of_machine(case: ExaminedMachine) -> Checks:
    """Room for the newest torch with its GPU part, and for an installed wheel; a plan knows its own need."""
    free = case.machine.disk_free_gib
    # The backend that the first usable card asks for.
    backend: Name = next((name for gpu in case.machine.gpus if (name := backend_of(gpu.vendor))), "cpu")
    to_build, to_use = build_needs().disk_gib, load_facts().costs.use[backend].disk_gib
    want = f"{to_build:g} GiB free to build, {to_use:g} to use"
    if free is None:
        yield Check(id="disk", status="skip", needed_for=TO_BOTH, want=want)
    elif free >= to_build:
        yield Check(id="disk", status="ok", needed_for=TO_BOTH, found=f"{free:g} GiB", want=want)
    else:
        needed = TO_BUILD if free >= to_use else TO_BOTH
        yield case.verdict("disk", False, f"{free:g} GiB", want=want, needed_for=needed)


def demands_of(plan: Plan, places: Mapping[DiskPhase, Path], tree: SourceTree | None) -> tuple[Demand, ...]:
    """What each phase that has a place will put there. What is there already is not put there again."""
    facts = load_facts()
    release = (plan.torch or facts.releases[0]).split("+")[0]
    origin = plan.build.origin if plan.build else None
    demands = []
    for phase in _PHASES:
        is_there = (phase == "fetch" and tree is not None) or (phase == "compile" and _is_begun(tree))
        if phase not in places or is_there:
            continue
        size = measured_bytes(phase, plan.project, release, facts, gpu=bool(plan.cuda or plan.rocm), origin=origin)
        demands.append(Demand(phase, str(places[phase]), size))
    return tuple(demands)


def disk_for_build(host: Host, build: PlannedBuild) -> Checks:
    """Room for each phase, where it writes: asked before the first, of every file system. Fails where a phase would not
    fit by what was measured; a warning where the plan expects more than is free."""
    beside = build.workspace or build.place
    places: dict[DiskPhase, Path] = {"fetch": beside, "environment": beside, "compile": build.place, "wheel": beside}
    places |= build.places
    plan, tree = build.plan, build.tree
    demands = demands_of(plan, places, tree)
    room = free_space(host)
    if (disk := room(str(places["compile"]))) is not None and disk[1] < START_FREE_BYTES:
        text = f"only {disk[1] / GIB:.1f} GiB are free where {places['compile']} lies"
        raise BadInput(text, remedy=_make_room("compile"))
    if (short := first_shortage(demands, room)) is not None:
        before = f" beside {spoken_bytes(short.before)} of earlier phases" if short.before else ""
        text = f"{short.demand.phase} needs {spoken_bytes(short.demand.bytes or 0)}{before} at {short.demand.place}"
        raise BadInput(f"{text}, and {spoken_bytes(short.free)} are free there", remedy=_make_room(short.demand.phase))
    if disk is None:
        return
    want = build.recipe.disk_gib
    tight = bool(want and disk[1] < want * GIB) and not _is_begun(tree)
    sizes = [f"{need.phase} {'unknown' if need.bytes is None else spoken_bytes(need.bytes)}" for need in demands]
    text = f"{spoken_bytes(disk[1])} free where {places['compile']} lies" + (f" ({', '.join(sizes)})" if sizes else "")
    yield build_check("disk", "warn" if tight else "ok", text, want=f"{want:.0f} GiB" if want else None)


def _is_begun(tree: SourceTree | None) -> bool:
    """A build that continues: how much is left of it is not known."""
    return tree is not None and has_objects(Path(tree.root) / "build")


def _make_room(phase: str) -> str:
    other = "name a place on another disk with --venv DIR" if phase == "verify" else "work on another: --workspace DIR"
    return f"make room there ('rekindle clean' removes what earlier runs left), or {other}"


def place_for_build(host: Host, build: PlannedBuild) -> Checks:
    """A path that some tool on the way reads otherwise than it is written ends in an error nobody understands."""
    place, why = str(build.place), ""
    if letters := [letter for letter in MEANINGFUL if letter in place]:
        why = "which CMake, ninja or PATH read as something else"
    elif build.plan.cuda and (letters := [letter for letter in ",'" if letter in place]):
        why = "at which nvcc cuts the folders after -I in two"
    if why and host.system != "windows":
        remedy = "use a workspace and a source folder without such letters (spaces and umlauts are fine)"
        raise BadInput(f"the path {place} holds {' '.join(letters)}, {why}", remedy=remedy)
    yield from ()


def workspace_path_of_machine(case: ExaminedMachine) -> Checks:
    """Windows' tools want a short plain path."""
    if not case.windows:
        return
    path, is_long = case.workspace, len(case.workspace) > _ROOM_FOR_THE_TREE
    troubles = {
        "it has a space, which old build scripts of torch do not quote": " " in path,
        "it has letters outside ASCII, which nvcc and old CMake files garble": not path.isascii(),
        f"it is {len(path)} characters long, and long paths are off": is_long and not case.machine.os.long_paths,
    }
    want, why = "a short plain path such as C:\\rk", "; ".join(text for text, holds in troubles.items() if holds)
    yield case.verdict("workspace-path", not why, path, want=want, why=why, bad="warn")


def long_paths_of_machine(case: ExaminedMachine) -> Checks:
    """Windows' own switch for paths beyond 260 characters."""
    if case.windows and (on := case.machine.os.long_paths) is not None:
        why = "torch's build tree has paths longer than 260 characters"
        bad = case.verdict("long-paths", False, "off", want="on", why=why)
        yield build_check("long-paths", "ok", "on", want="on") if on else bad
