"""The whole way of a graft: look what the wheel lacks, compile that, hold it against the wheel, write.

Every step may be cut short: extracted libraries and compiled images stay in the work folder, which belongs to one
wheel (by its digest), and the same call continues there.
"""

import fnmatch
import itertools
import re
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.errors import BadInput, StageFailed
from rekindle.formats.rewrite import extract
from rekindle.formats.statement import write_statement
from rekindle.formats.view import Malformed
from rekindle.formats.wheel import WheelZip, check_wheel
from rekindle.graft import Code
from rekindle.graft.compile import Job, forget_empty, pack_job, write_jobs
from rekindle.graft.library import DeviceLibrary, GpuLibrary, GraftCandidate, Unit, Way, unit_compression
from rekindle.graft.nvidia import SourceWay, compare_code
from rekindle.graft.pack import read_graft, write_archive, write_graft
from rekindle.graft.wheel import Applied, apply_graft, exchanged_packages, grafted_name, grafted_version, switched_off
from rekindle.host.files import file_state, sha256_of, whole_file, write_atomically
from rekindle.model.arch import GpuArch
from rekindle.model.graft import GraftReport, LibraryBeside, Making, UnitOutcome, UnitProof
from rekindle.model.progress import Progress

_LIBRARY = re.compile(r"\.so(\.\d+)*$|\.(dll|pyd)$")
_LEAST_BYTES = 4096
# Shared libraries of NVIDIA itself that some wheels bring along: closed, and not ours to change.
_VENDOR = re.compile(r"/(lib)?(cu(blas|dnn|fft|rand|solver|sparse|dart|file|pti)|nv|nccl)[^/]*(?(1)|\.dll)$")
BUILD_TYPE = "rekindle/graft/v1"
SUFFIX = ".graft"
UNWANTED = "not wanted (--without)"


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The toolkit that compiles: its ``release``, ptxas, nvcc and fatbinary where they are there, all versions."""

    release: str
    ptxas: str = ""
    nvcc: str | None = None
    fatbinary: str | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class FoundLibrary:
    """A library of the wheel by its ``number`` as a file, and what can be made of it by which way."""

    number: int
    path: Path
    name: str
    planned: tuple[tuple[Way, tuple[GraftCandidate, ...]], ...]

    @property
    def units(self) -> tuple[GraftCandidate, ...]:
        """All that can be made."""
        return tuple(unit for _, units in self.planned for unit in units)


@dataclass(frozen=True, kw_only=True)
class CardTarget:
    """A card by the ``name`` it was asked for, what is made for it, and ``ways``, each for what those before lack."""

    name: str
    arch: GpuArch
    ways: tuple[Way, ...]


@dataclass(frozen=True, kw_only=True)
class GraftOrder:
    """``out`` is None where only the graft file is wanted, which then goes to ``graft``. ``run_jobs`` runs Ninja in a
    folder and says which outputs failed, and why. ``leave_out``: go on without units that are refused; ``without``:
    patterns of units that are not wanted. ``prove``: so many units are first compiled for an architecture the wheel has
    and held against its own machine code. ``libraries``: the closed ones it calls; ``notes`` go into the report.
    ``device_library`` reads the libraries of the cards' vendor; those without its code are passed over."""

    wheel: Path
    targets: tuple[CardTarget, ...]
    work: Path
    tools: Tools
    run_jobs: Callable[[Path, Sequence[Job]], Mapping[str, str]]
    out: Path | None = None
    graft: Path | None = None
    leave_out: bool = False
    without: tuple[str, ...] = ()
    prove: int = 0
    dry_run: bool = False
    libraries: tuple[LibraryBeside, ...] = ()
    notes: tuple[str, ...] = ()
    device_library: type[DeviceLibrary] = GpuLibrary

    @property
    def archs(self) -> tuple[str, ...]:
        """What the new code is for."""
        return tuple(dict.fromkeys(str(target.arch) for target in self.targets))


def carry_out(order: GraftOrder, progress: Progress) -> GraftReport:
    """Graft, or say what would be done. A refused unit ends it before anything is written, unless it may lack."""
    begun = time.monotonic()
    return msgspec.structs.replace(_carry_out(order, progress), seconds=time.monotonic() - begun)


def _carry_out(order: GraftOrder, progress: Progress) -> GraftReport:
    try:
        checked = check_wheel(order.wheel)
        parse_wheel_filename(order.wheel.name)
    except InvalidWheelFilename as error:
        raise BadInput(f"{order.wheel.name} is no wheel's name: {error}") from error
    progress.stage("check", order.wheel.name)
    report = GraftReport(
        wheel=str(order.wheel),
        wheel_sha256=sha256_of(order.wheel),
        bytes_before=order.wheel.stat().st_size,
        card=", ".join(target.name for target in order.targets),
        arch=", ".join(order.archs),
        way=order.targets[-1].ways[-1].kind,
        version=grafted_version(checked, order.wheel.name, order.archs),
        tools=order.tools.versions,
        dry_run=order.dry_run,
        libraries=order.libraries,
    )
    libraries, others, notes = _read_libraries(order, checked, report.wheel_sha256, progress)
    units = [unit for library in libraries for unit in library.units]
    planned = [unit.outcome("planned", unit.plan) for unit in units]
    report = msgspec.structs.replace(report, units=_sort_outcomes([*others, *planned]), notes=(*order.notes, *notes))
    if order.prove and units:
        report = msgspec.structs.replace(report, proof=_prove_recipe(order, libraries, progress))
    if order.dry_run or not units or report.disproven:
        return report
    code, outcomes, compiled = _compile(order, libraries, progress)
    report = msgspec.structs.replace(report, units=_sort_outcomes([*others, *outcomes]), compiled=compiled)
    refused = [outcome for outcome in outcomes if outcome.state == "refused"]
    if not code or (refused and not order.leave_out):
        return report
    return _write_result(order, code, report, progress, libraries)


def _read_libraries(
    order: GraftOrder, checked: WheelZip, digest: str, progress: Progress
) -> tuple[list[FoundLibrary], list[UnitOutcome], list[str]]:
    """The libraries with device code, what can be compiled of each, the state of the rest, and notes."""
    names = sorted(
        name for name, member in checked.members.items() if _LIBRARY.search(name) and member.size >= _LEAST_BYTES
    )
    libraries: list[FoundLibrary] = []
    others: list[UnitOutcome] = []
    notes: list[str] = []
    progress.stage("read", f"libraries of the wheel: {len(names)}")
    with zipfile.ZipFile(order.wheel) as archive:
        for number, name in enumerate(names):
            progress.step(number, len(names), name)
            if _VENDOR.search(name):
                notes.append(f"{name} is NVIDIA's own library and stays as it is")
                continue
            path = order.work / digest[:16] / f"{number}.so"
            # One that an earlier run extracted whole is taken as it is.
            if not (path.is_file() and path.stat().st_size == checked.members[name].size):
                with whole_file(path) as part:
                    extract(archive, name, part)
            surveyed = []
            try:
                with order.device_library(path, name) as library:
                    if library.units:
                        library.check_pointers()
                        surveyed = [_survey_card(library, target, order.without) for target in order.targets]
            except Malformed as error:
                notes.append(f"{name} stays as it is: {error.message.removeprefix(f'{name}: ')}")
            if not surveyed:
                path.unlink()
                continue
            others += [row for _, rows in surveyed for row in rows]
            libraries.append(FoundLibrary(number, path, name, tuple(pair for units, _ in surveyed for pair in units)))
    return libraries, others, notes


def _survey_card(
    library: DeviceLibrary, target: CardTarget, without: Sequence[str]
) -> tuple[list[tuple[Way, tuple[GraftCandidate, ...]]], list[UnitOutcome]]:
    """What each way to a card can make that none before it could, and the state of all other units there."""
    settled: set[int] = set()
    made: list[tuple[Way, tuple[GraftCandidate, ...]]] = []
    state: dict[int, UnitOutcome] = {}
    for way in target.ways:
        if len(settled) == len(library.units):
            break  # a later way may need sources, which nobody fetches for nothing
        units, others = way.survey(library)
        mine = tuple(unit for unit in units if unit.unit.number not in settled and not _is_unwanted(unit.name, without))
        others += [unit.outcome("left-out", UNWANTED) for unit in units if _is_unwanted(unit.name, without)]
        made.append((way, mine))
        state |= {other.container: other for other in others}
        settled |= {unit.unit.number for unit in mine} | {row.container for row in others if row.state == "has"}
    planned = {unit.unit.number for _, units in made for unit in units}
    rest = [row for number, row in state.items() if number not in planned]
    return made, [msgspec.structs.replace(row, arch=row.arch or str(target.arch)) for row in rest]


def _is_unwanted(name: str | None, patterns: Sequence[str]) -> bool:
    return name is not None and any(fnmatch.fnmatchcase(name.removesuffix("_cu"), pattern) for pattern in patterns)


def _prove_recipe(order: GraftOrder, libraries: Sequence[FoundLibrary], progress: Progress) -> tuple[UnitProof, ...]:
    """A few units compiled for an architecture that the wheel has. The same names, and the same machine code where the
    toolkit is the wheel's own, show that the recipe is right before it is used."""
    folder = order.work / "proof"
    rows: list[UnitProof] = []
    # The wheel's own code needs no proof, and other compilers than its own give other code.
    ways = [way for way in order.targets[0].ways if isinstance(way, SourceWay)]
    for each, way in itertools.product(libraries, ways):
        with GpuLibrary(each.path, each.name) as library:
            units = way.proofs(library, order.prove - len(rows))
            if not units:
                continue
            jobs = way.jobs(folder, each.number, library, units)
            forget_empty(folder, jobs)
            progress.stage("prove", f"for {units[0].arch}, which the wheel has; units: {len(units)}")
            failed = _run_jobs(order, folder, jobs)
            for unit in units:
                cubin, official = unit.output(each.number), unit.official()
                assert official is not None
                if cubin in failed:
                    rows.append(UnitProof(unit=unit.module.source, arch=str(unit.arch), why=failed[cubin]))
                else:
                    rows.append(compare_code(unit, (folder / cubin).read_bytes(), library.image(official)))
    return tuple(rows)


def _compile(
    order: GraftOrder, libraries: Sequence[FoundLibrary], progress: Progress
) -> tuple[dict[tuple[str, int], dict[GpuArch, bytes]], list[UnitOutcome], int]:
    """What was made and stands beside the wheel's own, the state of every unit, and how many were compiled now."""
    folder = order.work / "images"
    jobs: list[Job] = []
    for each in libraries:
        with order.device_library(each.path, each.name) as library:
            for way, units in each.planned:
                jobs += way.jobs(folder, each.number, library, units)
    made = [job.output for job in jobs]
    program, release = order.tools.fatbinary, order.tools.release
    packs = [
        pack_job(program, unit.output(each.number), unit.arch, compression=unit_compression(unit.unit), release=release)
        for each in libraries
        for unit in each.units
        if program and isinstance(unit.unit, Unit)
    ]
    forget_empty(folder, [*jobs, *packs])
    before = {output: file_state(folder / output) for output in made}
    progress.stage("compile", f"for {', '.join(order.archs)}; units: {len(made)}")
    failed = _run_jobs(order, folder, jobs)
    # Seconds all together: counted with the compilations, they would leave those at half when they end.
    good = [job for job in jobs if job.output not in failed]
    packs = [job for job in packs if not failed.keys() & job.inputs]
    failed |= _run_jobs(order, folder, [*good, *packs]) if packs else {}
    compiled = sum(1 for output in made if file_state(folder / output) != before[output])
    progress.stage("hold", "names, parameters and variables against the wheel's own")
    code: dict[tuple[str, int], dict[GpuArch, bytes]] = {}
    outcomes: list[UnitOutcome] = []
    for each in libraries:
        with order.device_library(each.path, each.name) as library:
            for unit in each.units:
                cubin = unit.output(each.number)
                fatbin = cubin.removesuffix(".cubin") + ".fatbin"
                why = failed.get(cubin) or failed.get(fatbin)
                why = why or library.differences(unit, (folder / cubin).read_bytes())
                if why is None:
                    new = (folder / (fatbin if program else cubin)).read_bytes()
                    code.setdefault((unit.library, unit.unit.number), {})[unit.arch] = new
                outcomes.append(unit.outcome("refused" if why else "added", why))
    return code, outcomes, compiled


def _run_jobs(order: GraftOrder, folder: Path, jobs: Sequence[Job]) -> dict[str, str]:
    """Output -> why it failed; what was made before stays."""
    write_jobs(folder, jobs, order.tools.versions)
    return dict(order.run_jobs(folder, jobs)) if jobs else {}


def _write_result(
    order: GraftOrder, code: Code, report: GraftReport, progress: Progress, libraries: Sequence[FoundLibrary]
) -> GraftReport:
    version = report.version or ""
    # Only of ways that made something of what is added the flags and sources are told.
    planned = [(way, unit) for library in libraries for way, units in library.planned for unit in units]
    made = [way for way, unit in planned if unit.arch in code.get((unit.library, unit.unit.number), {})]
    used = {id(way): way for way in made}.values()
    fat = [(library.name, unit.unit) for library in libraries for unit in library.units if isinstance(unit.unit, Unit)]
    # By library, the flags of an entry it has: they name the system that its host code is for.
    hosts = {name: unit.container.entries[0].flags for name, unit in fat}
    # zstd where the wheel's own entries use it: then its driver knows it. LZ4 takes NVIDIA's tool.
    storage = "zstd" if {unit_compression(unit) for _, unit in fat} == {"zstd"} else "none"
    archs = sorted({arch for images in code.values() for arch in images})
    making = Making(
        way=[*used][-1].kind,
        archs=tuple(map(str, archs)),
        tools=order.tools.versions,
        flags=tuple(dict.fromkeys(flag for way in used for flag in way.flags)),
        sources=tuple(dict.fromkeys(source for way in used for source in way.sources)),
        requires=exchanged_packages(order.libraries),
        off=switched_off(order.libraries),
    )
    report = msgspec.structs.replace(report, way=making.way)
    name = grafted_name(order.wheel.name, version)
    draft = order.work / (name.removesuffix(".whl") + SUFFIX)
    progress.stage("pack", draft.name)
    digest, left = report.wheel_sha256, tuple(row for row in report.units if row.state in ("left-out", "refused"))
    write_graft(draft, order.wheel, digest, code, making, version=version, compression=storage, hosts=hosts)
    graft, entries = read_graft(draft)
    graft = msgspec.structs.replace(graft, left_out=left, libraries=order.libraries)
    # Applied in any case: a graft file that cannot be applied is worth nothing.
    applied = apply_graft(order.wheel, graft, entries, order.out or order.work / "proof", progress)
    got = {"grafted": applied.path.name, "grafted_sha256": applied.sha256}
    got |= {"record_sha256": applied.record_sha256} if order.device_library.repeatable else {}
    write_archive(draft, msgspec.structs.replace(graft, **got), entries)
    if order.out is None:
        applied.path.unlink()
        assert order.graft is not None
        write_atomically(order.graft, draft.read_bytes())
        size = order.graft.stat().st_size
        return msgspec.structs.replace(report, graft=str(order.graft), graft_bytes=size, sha256=applied.sha256)
    return _tell_written(report, applied, draft, making)


def _tell_written(report: GraftReport, applied: Applied, graft: Path, making: Making) -> GraftReport:
    """The report with what lies on the disk now: provenance and digest beside the wheel are enough to repeat it."""
    wheel, sha256 = applied.path, applied.sha256
    unwanted = sorted({str(outcome.unit).removesuffix("_cu") for outcome in report.units if outcome.why == UNWANTED})
    official, tools = Path(report.wheel).name, making.tools
    asked = {"wheel": official, "archs": list(making.archs), "without": unwanted}
    settings = {"way": making.way, "flags": list(making.flags), "tools": tools}
    materials: list[dict[str, Any]] = [
        {"uri": f"pkg:pypi/{official}", "digest": {"sha256": report.wheel_sha256}},
        *({"uri": source} for source in making.sources),
    ]
    made = [(wheel.name, sha256)]
    statement = write_statement(made, kind=BUILD_TYPE, asked=asked, settings=settings, materials=materials, tools=tools)
    path = wheel.with_name(wheel.name + ".intoto.json")
    write_atomically(path, statement)
    write_atomically(wheel.with_name(wheel.name + ".sha256"), f"{sha256}  {wheel.name}\n")
    return msgspec.structs.replace(
        report, out=str(wheel), sha256=sha256, bytes_after=wheel.stat().st_size, graft=str(graft),
        graft_bytes=graft.stat().st_size, provenance=str(path), notes=(*report.notes, *applied.notes),
    )  # fmt: skip


def apply_file(wheel: Path, graft_file: Path, out: Path, progress: Progress) -> GraftReport:
    """A graft file applied to its wheel: checked against what its maker got."""
    begun = time.monotonic()
    graft, entries = read_graft(graft_file)
    applied = apply_graft(wheel, graft, entries, out, progress)
    if graft.record_sha256 is not None and applied.record_sha256 != graft.record_sha256:
        applied.path.unlink()
        raise StageFailed(
            f"the grafted wheel is not the one its maker got (RECORD {applied.record_sha256[:12]}…, not"
            f" {graft.record_sha256[:12]}…); it was thrown away",
            remedy="get the graft file again, or make it anew: rekindle graft",
        )
    archs = graft.made.archs
    rows = graft.entries
    added = [UnitOutcome(library=row.library, container=row.container, state="added", arch=row.arch) for row in rows]
    report = GraftReport(
        wheel=str(wheel),
        wheel_sha256=graft.wheel_sha256,
        bytes_before=graft.wheel_bytes,
        card=", ".join(archs),
        arch=", ".join(archs),
        way=graft.made.way,
        version=graft.version,
        units=_sort_outcomes([*graft.left_out, *added]),
        tools=graft.made.tools,
        libraries=graft.libraries,
        same_bytes=applied.sha256 == graft.grafted_sha256 if graft.grafted_sha256 else None,
    )
    report = _tell_written(report, applied, graft_file, graft.made)
    return msgspec.structs.replace(report, seconds=time.monotonic() - begun)


def _sort_outcomes(units: Sequence[UnitOutcome]) -> tuple[UnitOutcome, ...]:
    return tuple(sorted(units, key=lambda outcome: (outcome.library, outcome.container)))
