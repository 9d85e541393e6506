"""What a build takes: memory, jobs, disk; and the third parties of a source tree: which rows speak of a release, and
what they ask of a machine. What a machine has of them is looked up in :mod:`rekindle.toolkits.libraries`."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from rekindle.compat.answer import Name
from rekindle.facts import Facts, load_facts
from rekindle.model import supply
from rekindle.model.graft import GraftCost
from rekindle.model.spoken import GIB
from rekindle.model.version import compare, key, matches, same_prefix

_Compiling = supply.BuildCost | GraftCost
_OfCompanion = TypeVar("_OfCompanion", supply.CompanionNeed, supply.CompanionDownload)
# device (None where it cannot be told), free bytes; None where the place does not answer
Room = tuple[int | None, int]


def build_cost(torch: str | None, backend: Name, facts: Facts) -> supply.BuildCost:
    """What building a release takes, by the newest row that counts for it; the newest release where none is named."""
    kind, release = "cpu" if backend == "cpu" else "gpu", torch or facts.releases[0]
    rows = [row for row in facts.costs.build if row.backend == kind and compare(release, row.since) >= 0]
    return max(rows, key=lambda row: key(row.since))


def jobs_for(memory_gib: float | None, threads: int, cost: _Compiling, swap_gib: float | None = None) -> int:
    """How many compilers fit at once: one at least, half of the swap counts, no more than threads."""
    if memory_gib is None:
        return max(1, threads)
    room = memory_gib + (swap_gib or 0.0) / 2
    return max(1, min(threads, int(room // cost.job_gib)))


def memory_fits(memory_gib: float | None, swap_gib: float | None, cost: supply.BuildCost) -> bool | None:
    """Does the largest single compilation fit, with swap? None where the memory is not known."""
    return None if memory_gib is None else memory_gib + (swap_gib or 0.0) >= cost.largest_gib


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
    phase: supply.DiskPhase, project: str, torch: str, facts: Facts, *, gpu: bool, origin: str | None = None
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
        if (reply := room(demand.place)) is None or demand.bytes is None:
            continue
        device, free = reply
        disk = demand.place if device is None else device
        before = used.get(disk, 0)
        if before + demand.bytes > free:
            return Shortage(demand, before, free)
        used[disk] = before + demand.bytes
    return None


def parts_for(
    release: str, facts: Facts | None = None, *, cuda: str | None = None, processor: str | None = None
) -> tuple[supply.ThirdParty, ...]:
    """One row per third party of this release; the first that fits counts. ``cuda`` and ``processor``: what is built
    with and for; where nobody has said so, every row fits."""
    parts: dict[str, supply.ThirdParty] = {}
    for row in (facts or load_facts()).supply.part:
        fits = row.toolkit is None or cuda is None or matches(cuda, row.toolkit)
        fits = fits and row.name not in parts and matches(release, row.torch)
        if fits and (part := _for_processor(row, processor)):
            parts[row.name] = part
    return tuple(parts.values())


def _for_processor(row: supply.ThirdParty, processor: str | None) -> supply.ThirdParty | None:
    """The row with the file for this processor; None where the package has none."""
    if row.index is None or not row.index.processors or processor in (None, "x86_64"):
        return row
    variant = row.index.processors.get(processor or "")
    return replace(row, index=replace(row.index, file=variant.file, sha256=variant.sha256)) if variant else None


def needs_for(release: str, facts: Facts | None = None, *, backend: str | None = None) -> tuple[supply.SupplyNeed, ...]:
    """What a release asks of the system: of every build, or what ``backend`` (rocm) asks beyond that."""
    rows = (facts or load_facts()).supply.need
    return tuple(row for row in rows if row.backend == backend and matches(release, row.torch))


def rows_for(project: str, release: str, rows: Iterable[_OfCompanion]) -> list[_OfCompanion]:
    """Those ``rows`` that speak of this companion of a torch release."""
    return [row for row in rows if row.project == project and matches(release, row.torch)]


def settings_of(rows: Iterable[supply.SupplyNeed], backend: str) -> dict[str, str]:
    """The variables that these rows set in a build with ``backend`` (cpu, cuda, rocm)."""
    return {name: value for row in rows for name, value in (row.settings | _gpu_settings(row, backend)).items()}


def _gpu_settings(row: supply.SupplyNeed, backend: str) -> dict[str, str]:
    return (row.gpu if backend != "cpu" else {}) | {"cuda": row.cuda, "rocm": row.rocm}.get(backend, {})


def from_index(rows: Iterable[supply.ThirdParty], backend: str) -> tuple[supply.ThirdParty, ...]:
    """Those that a build with ``backend`` (cpu, cuda, rocm) takes from the package index."""
    return tuple(row for row in rows if takes_from_index(row, backend))


def takes_from_index(row: supply.ThirdParty, backend: str | None) -> bool:
    """Is it fetched from the package index? While no ``backend`` is named, large libraries of one CUDA are not."""
    if row.index is None or backend is None:
        return row.index is not None and not row.toolkit
    return row.index.backend in (None, backend)


def is_planned_cudnn(row: supply.ThirdParty, cudnn: str | None) -> bool:
    """Is it another third party than cuDNN, or cuDNN in the planned version (``cudnn``; None: any)?"""
    return row.name != "cudnn" or row.index is None or cudnn is None or same_prefix(row.index.version, cudnn)


def losses_of(rows: Iterable[supply.ThirdParty], backend: str) -> tuple[str, ...]:
    """What is lost where these parts are left out; what is switched off for a GPU alone costs other builds nothing."""
    always = [row for row in rows if row.settings or not (row.gpu or row.cuda or row.rocm)]
    return tuple(row.loss for row in rows if row.loss and (row in always or _gpu_settings(row, backend)))


def manager_of(distro: str | None, facts: Facts | None = None, *, any_names: bool = False) -> supply.Manager | None:
    """The package manager of "debian 12" or "wsl2-ubuntu-22.04"; None where no row names the distribution.
    ``any_names``: also where what a build takes is not known by its names."""
    words = set(re.findall(r"[a-z]+", (distro or "").lower()))
    rows = (facts or load_facts()).supply.manager
    return next((row for row in rows if words & {*row.distros, *(row.others if any_names else ())}), None)


def packages_of(rows: Iterable[supply.SupplyNeed], manager: supply.Manager | None) -> tuple[str, ...]:
    """The names of the packages that bring what these rows need."""
    if manager is None:
        return ()
    return tuple(dict.fromkeys(name for row in rows for name in row.packages.get(manager.name, ())))


def install_line(packages: Sequence[str], manager: supply.Manager, *, root: bool) -> str:
    """One line to paste; ``root``: whoever pastes it needs no sudo."""
    return f"{'' if root else 'sudo '}{manager.install} {' '.join(packages)}"


def rocm_packages(names: Iterable[str], manager: supply.Manager, home: str) -> tuple[str, ...]:
    """The packages that bring these parts of ROCm to the one in ``home``: the distribution's below /usr, else AMD's.
    The two must not be mixed: a library beside the other maker's ROCm is not found, or has another version."""
    maker = "distribution" if PurePosixPath(home).is_relative_to("/usr") else "amd"
    for row in load_facts().supply.rocm:
        if (row.manager, row.maker) == (manager.name, maker):
            return tuple(dict.fromkeys(row.named.get(name, row.pattern.format(name=name.lower())) for name in names))
    return ()


def how_to_install(lacks: Sequence[supply.Lack], manager: supply.Manager | None, *, root: bool) -> str | None:
    """One line for everything that is missing; None where the machine's packages are not known."""
    packages = packages_of((lack.need for lack in lacks), manager)
    return install_line(packages, manager, root=root) if manager and packages else None
