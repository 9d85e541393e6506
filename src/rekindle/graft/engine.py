"""The whole way of a graft: look what the wheel lacks, compile that, hold it against the wheel, write.

Every step may be cut short: extracted libraries and compiled images stay in the work folder, which belongs to one
wheel (by its digest) and one architecture, and the same call continues there.
"""

from __future__ import annotations

import re
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.errors import BadInput, StageFailed
from rekindle.facts import load_facts
from rekindle.formats.rewrite import extract
from rekindle.formats.statement import write_statement
from rekindle.formats.view import Malformed
from rekindle.formats.wheel import WheelZip, check_wheel
from rekindle.graft.compile import Job, forget_empty, write_jobs
from rekindle.graft.hold import differences
from rekindle.graft.library import Library, nearest
from rekindle.graft.pack import complete, read_graft, write_graft
from rekindle.graft.ptx import PtxUnit, survey, unit_compression, write_ptx_jobs
from rekindle.graft.wheel import apply_graft, grafted_name, grafted_version
from rekindle.host.files import sha256_of, write_atomically
from rekindle.model.arch import Sm
from rekindle.model.graft import GraftReport, Making, UnitOutcome
from rekindle.model.progress import Progress

_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_LEAST_BYTES = 4096
# Shared libraries of NVIDIA itself that some wheels bring along: closed, and not ours to change.
_VENDOR = re.compile(r"/lib(cu(blas|dnn|fft|rand|solver|sparse|dart|file|pti)|nv|nccl)[^/]*$")
BUILD_TYPE = "rekindle/graft/v1"
SUFFIX = ".graft"


@dataclass(frozen=True, kw_only=True)
class Tools:
    """The toolkit that compiles: its ``release``, ptxas, fatbinary where there is one, all versions."""

    release: str
    ptxas: str
    fatbinary: str | None = None
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Order:
    """``arch`` is what the toolkit makes for ``card``. ``out`` is None where only the graft file is wanted, which then
    goes to ``graft``. ``run_jobs`` runs Ninja in a folder and says which outputs failed, and why. ``leave_out``: go on
    without units that are refused."""

    wheel: Path
    card: Sm
    card_name: str
    arch: Sm
    work: Path
    tools: Tools
    run_jobs: Callable[[Path, Sequence[Job]], Mapping[str, str]]
    out: Path | None = None
    graft: Path | None = None
    leave_out: bool = False
    dry_run: bool = False


def carry_out(order: Order, progress: Progress) -> GraftReport:
    """Graft, or say what would be done. A refused unit ends it before anything is written, unless it may lack."""
    begun = time.monotonic()
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
        card=order.card_name,
        arch=str(order.arch),
        way="ptx",
        version=grafted_version(checked, order.wheel.name, [str(order.arch)]),
        tools=order.tools.versions,
        dry_run=order.dry_run,
    )
    libraries, told, notes = _look(order, checked, report.wheel_sha256, progress)
    units = [unit for _, found in libraries for unit in found]
    planned = [_told(unit, "planned", f"its {unit.entry.name} PTX") for unit in units]
    report = msgspec.structs.replace(report, units=_sorted([*told, *planned]), notes=tuple(notes))
    if order.dry_run or not units:
        return msgspec.structs.replace(report, seconds=time.monotonic() - begun)
    code, outcomes, compiled = _compile(order, libraries, progress)
    report = msgspec.structs.replace(report, units=_sorted([*told, *outcomes]), compiled=compiled)
    refused = [one for one in outcomes if one.state == "refused"]
    if not code or (refused and not order.leave_out):
        return msgspec.structs.replace(report, seconds=time.monotonic() - begun)
    report = _write(order, code, report, progress, _storage(libraries))
    return msgspec.structs.replace(report, seconds=time.monotonic() - begun)


def _look(
    order: Order, checked: WheelZip, digest: str, progress: Progress
) -> tuple[list[tuple[Path, list[PtxUnit]]], list[UnitOutcome], list[str]]:
    """The libraries with device code, what can be compiled of each, the state of the rest, and notes."""
    facts = load_facts()
    names = sorted(
        name for name, member in checked.members.items() if _LIBRARY.search(name) and member.size >= _LEAST_BYTES
    )
    found: list[tuple[Path, list[PtxUnit]]] = []
    told: list[UnitOutcome] = []
    notes: list[str] = []
    progress.stage("read", f"{len(names)} libraries")
    with zipfile.ZipFile(order.wheel) as archive:
        for number, name in enumerate(names):
            progress.step(number, len(names), name)
            if _VENDOR.search(name):
                notes.append(f"{name} is NVIDIA's own library and stays as it is")
                continue
            path = _extracted(order.work / digest[:16], archive, name, checked.members[name].size, number)
            try:
                with Library(path, name) as library:
                    if not library.units:
                        path.unlink()
                        continue
                    library.check_pointers()
                    units, others = survey(library, order.card, order.arch, facts)
            except Malformed as error:
                notes.append(f"{name} stays as it is: {error.message.removeprefix(f'{name}: ')}")
                path.unlink(missing_ok=True)
                continue
            told += others
            found.append((path, units))
    return found, told, notes


def _extracted(folder: Path, archive: zipfile.ZipFile, name: str, size: int, number: int) -> Path:
    """A library of the wheel as a file; one that an earlier run extracted whole is taken as it is."""
    path = folder / f"{number}.so"
    if not (path.is_file() and path.stat().st_size == size):
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        extract(archive, name, part)
        part.replace(path)
    return path


def _compile(
    order: Order, libraries: Sequence[tuple[Path, list[PtxUnit]]], progress: Progress
) -> tuple[dict[tuple[str, int], dict[Sm, bytes]], list[UnitOutcome], int]:
    """What was made and stands beside the wheel's own, the state of every unit, and how many were compiled now."""
    folder = order.work / f"{order.arch}"
    folder.mkdir(parents=True, exist_ok=True)
    jobs: list[Job] = []
    numbered = [(path, units, path.stem) for path, units in libraries if units]
    for path, units, stem in numbered:
        with Library(path, units[0].library) as library:
            jobs += write_ptx_jobs(folder, int(stem), library, units, order.tools.ptxas, order.tools.fatbinary)
    write_jobs(folder, jobs, order.tools.versions)
    forget_empty(folder, jobs)
    before = {job.output: _stamp(folder / job.output) for job in jobs}
    progress.stage("compile", f"{sum(len(units) for _, units, _ in numbered)} units for {order.arch}")
    failed = order.run_jobs(folder, jobs)
    made = [job.output for job in jobs if job.output.endswith(".cubin")]
    compiled = sum(1 for output in made if _stamp(folder / output) != before[output])
    progress.stage("hold", "names, parameters and variables against the wheel's own")
    code: dict[tuple[str, int], dict[Sm, bytes]] = {}
    outcomes: list[UnitOutcome] = []
    for path, units, stem in numbered:
        with Library(path, units[0].library) as library:
            for unit in units:
                output = f"cubin/{stem}-{unit.unit.number}.{order.arch}"
                why = failed.get(f"{output}.cubin") or failed.get(f"{output}.fatbin")
                if why is None:
                    image = (folder / f"{output}.cubin").read_bytes()
                    why = _held(library, unit, image)
                if why is None:
                    new = (folder / f"{output}.fatbin").read_bytes() if order.tools.fatbinary else image
                    code[unit.library, unit.unit.number] = {order.arch: new}
                outcomes.append(_told(unit, "refused" if why else "added", why))
    return code, outcomes, compiled


def _held(library: Library, unit: PtxUnit, image: bytes) -> str | None:
    """Held against machine code made from the very same PTX where the wheel has some, else against the nearest."""
    official = next((entry for entry in unit.unit.sass if entry.arch == unit.entry.arch), None)
    official = official or nearest(unit.unit.sass, unit.arch)
    if official is None:
        return None  # PTX alone: the driver would take what it gives, whatever it is
    return differences(image, unit.arch, library.face(official))


def _stamp(path: Path) -> tuple[int, int] | None:
    return (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else None


def _storage(libraries: Iterable[tuple[Path, list[PtxUnit]]]) -> str:
    """zstd where the wheel's own entries use it: then its driver knows it. LZ4 takes NVIDIA's tool."""
    ways = {unit_compression(unit.unit) for _, units in libraries for unit in units}
    return "zstd" if ways == {"zstd"} else "none"


def _write(
    order: Order,
    code: dict[tuple[str, int], dict[Sm, bytes]],
    report: GraftReport,
    progress: Progress,
    compression: str,
) -> GraftReport:
    version = report.version or ""
    made = Making(way="ptx", archs=(str(order.arch),), tools=order.tools.versions, flags=(f"ptxas -arch={order.arch}",))
    name = grafted_name(order.wheel.name, version)
    draft = order.work / (name.removesuffix(".whl") + SUFFIX)
    progress.stage("pack", draft.name)
    left = tuple(one for one in report.units if one.state in ("left-out", "refused"))
    write_graft(
        draft, order.wheel, report.wheel_sha256, code, made, version=version, left_out=left, compression=compression
    )
    graft, entries = read_graft(draft)
    # Applied in any case: a graft file that cannot be applied is worth nothing.
    applied = apply_graft(order.wheel, graft, entries, order.out or order.work / "proof", progress)
    complete(draft, grafted=applied.path.name, record_sha256=applied.record_sha256, grafted_sha256=applied.sha256)
    if order.out is None:
        applied.path.unlink()
        assert order.graft is not None
        order.graft.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(order.graft, draft.read_bytes())
        return msgspec.structs.replace(
            report, graft=str(order.graft), graft_bytes=order.graft.stat().st_size, sha256=applied.sha256
        )
    statement = write_beside(applied.path, applied.sha256, report, made)
    return msgspec.structs.replace(
        report, out=str(applied.path), sha256=applied.sha256, bytes_after=applied.path.stat().st_size,
        graft=str(draft), graft_bytes=draft.stat().st_size, provenance=str(statement),
        notes=(*report.notes, *applied.notes),
    )  # fmt: skip


def write_beside(wheel: Path, sha256: str, report: GraftReport, made: Making) -> Path:
    """The provenance statement and the digest beside a grafted wheel."""
    statement = write_statement(
        [(wheel.name, sha256)],
        kind=BUILD_TYPE,
        asked={"wheel": Path(report.wheel).name, "archs": list(made.archs)},
        settings={"way": made.way, "flags": list(made.flags), "tools": made.tools},
        materials=[
            {"uri": f"pkg:pypi/{Path(report.wheel).name}", "digest": {"sha256": report.wheel_sha256}},
            *({"uri": source} for source in made.sources),
        ],
        tools=made.tools,
    )
    path = wheel.with_name(wheel.name + ".intoto.json")
    write_atomically(path, statement)
    write_atomically(wheel.with_name(wheel.name + ".sha256"), f"{sha256}  {wheel.name}\n")
    return path


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
    report = GraftReport(
        wheel=str(wheel),
        wheel_sha256=graft.wheel_sha256,
        bytes_before=graft.wheel_bytes,
        card=", ".join(archs),
        arch=", ".join(archs),
        way=graft.made.way,
        version=graft.version,
        units=_sorted(
            [
                *graft.left_out,
                *(
                    UnitOutcome(library=row.library, container=row.container, state="added", arch=row.arch)
                    for row in graft.entries
                ),
            ]
        ),
        out=str(applied.path),
        sha256=applied.sha256,
        bytes_after=applied.path.stat().st_size,
        graft=str(graft_file),
        graft_bytes=graft_file.stat().st_size,
        tools=graft.made.tools,
        notes=applied.notes,
        same_bytes=applied.sha256 == graft.grafted_sha256 if graft.grafted_sha256 else None,
    )
    statement = write_beside(applied.path, applied.sha256, report, graft.made)
    return msgspec.structs.replace(report, provenance=str(statement), seconds=time.monotonic() - begun)


def _told(unit: PtxUnit, state: str, why: str | None) -> UnitOutcome:
    return UnitOutcome(
        library=unit.library, container=unit.unit.number, unit=unit.name, state=state, arch=str(unit.arch), why=why  # type: ignore[arg-type]
    )  # fmt: skip


def _sorted(units: Sequence[UnitOutcome]) -> tuple[UnitOutcome, ...]:
    return tuple(sorted(units, key=lambda one: (one.library, one.container)))
