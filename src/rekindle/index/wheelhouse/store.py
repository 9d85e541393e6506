"""The wheelhouse on disk: wheels, their metadata, and one record per wheel.

``wheels/<project>/<file>`` is the wheel and ``<file>.metadata`` beside it what PEP 658 asks for;
``records/<project>/<file>.json`` is its :class:`StoredWheel`. The record is written last: a wheel exists for the index
exactly when its record does, so a kill leaves it in or out, never half in. Writers hold the lock only while they
rename, not for the long copy. What lies beside a wheel is taken only where it speaks about exactly that file.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from packaging.utils import canonicalize_name

from rekindle.compat.images import GpuCode
from rekindle.compat.proofs import GivenRecord, find_doubt, read_record
from rekindle.errors import BadInput, StageFailed, reading
from rekindle.facts import load_facts
from rekindle.formats.statement import IN_TOTO, MAX_ENVELOPE_BYTES, Check, provenance_object, read_statement, signed_by
from rekindle.host.files import sweep_left_behind, write_atomically
from rekindle.host.redact import Redactor
from rekindle.host.workspace import Workspace
from rekindle.index.wheelhouse.reading import ReadWheel, WheelName, parse_name, read_wheel
from rekindle.model.build import BuildResult
from rekindle.model.document import MAX_DOCUMENT_BYTES, encode, load, read_bounded, shared_fields
from rekindle.model.progress import Progress
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport
from rekindle.model.wheelhouse import AddedWheel, Origin, SharedRecord, StoredWheel

LOCK_WAIT_SECONDS = 120.0
# Beside a wheel: what people shared about it.
RECORDS = ".proofs.jsonl"
CHUNK = 1 << 20


class Wheelhouse:
    """Where everything lies below a ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheels, self.records, self.site = root / "wheels", root / "records", root / ".site"

    def wheel(self, project: str, file: str) -> Path:
        return self.wheels / project / file

    def record(self, project: str, file: str) -> Path:
        return self.records / project / f"{file}.json"

    def entry(self, file: str) -> StoredWheel:
        path = self.record(parse_name(file).project, file)
        if not path.is_file():
            raise BadInput(f"{file} is not in the wheelhouse {self.root}", remedy="rekindle index search --root DIR")
        return load(path, StoredWheel)

    def lock(self, purpose: str) -> contextlib.AbstractContextManager[object]:
        """One writer at a time; the others wait."""
        return Workspace(self.root).lock(purpose, wait=LOCK_WAIT_SECONDS, kind="wheelhouse")

    def exists(self) -> bool:
        """Was anything ever added: a wheel, or a graft?"""
        return self.records.is_dir() or (self.root / "grafts").is_dir()


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known about a wheel beyond itself; each part may be missing."""

    report: WheelReport | None = None
    proofs: tuple[VerifyReport, ...] = ()
    origin: Origin | None = None
    provenance: bytes | None = None
    records: tuple[SharedRecord, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """A checked copy of a wheel that lies inside the wheelhouse but is not part of it yet."""

    path: Path
    sha256: str
    bytes: int
    read: ReadWheel


@contextlib.contextmanager
def copied_in(house: Wheelhouse, source: Path, progress: Progress) -> Iterator[tuple[Path, str, int]]:
    """A copy inside the wheelhouse, its digest and its size: nobody can change it between check and use."""
    waiting = house.root / ".incoming"
    folder = waiting / secrets.token_hex(8)
    try:
        with disk_errors(house.root):
            waiting.mkdir(parents=True, exist_ok=True)
            sweep_left_behind(waiting)
            folder.mkdir()
            copied = copy_whole(source, folder / source.name, progress)
        yield folder / source.name, *copied
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def receive(house: Wheelhouse, source: Path, progress: Progress) -> Iterator[Incoming]:
    """Copy a wheel in and check the copy."""
    parse_name(source.name)
    progress.stage("copy", source.name)
    with copied_in(house, source, progress) as (path, sha256, size):
        progress.stage("check", source.name)
        yield Incoming(path=path, sha256=sha256, bytes=size, read=read_wheel(path, progress))


def admit(house: Wheelhouse, incoming: Incoming, evidence: Evidence) -> AddedWheel:
    """Make a received wheel part of the wheelhouse, or add evidence to one that is there already."""
    name = incoming.read.name
    with house.lock(f"index add {name.file}"), disk_errors(house.root):
        record = house.record(name.project, name.file)
        state = "added"
        entry = StoredWheel(
            **shared_fields(incoming, StoredWheel) | shared_fields(evidence, StoredWheel),
            file=name.file,
            project=name.project,
            version=str(name.version),
            tags=name.tag_strings,
            metadata_sha256=hashlib.sha256(incoming.read.metadata).hexdigest(),
            requires_python=incoming.read.requires_python,
            added=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            provenance_sha256=hashlib.sha256(evidence.provenance).hexdigest() if evidence.provenance else None,
        )
        if record.is_file():
            old = load(record, StoredWheel)
            if old.sha256 != incoming.sha256:
                raise StageFailed(
                    f"the wheelhouse already has another {name.file} (sha256 {old.sha256[:12]}…)",
                    remedy="installers remember files by name: give the new one a build tag or a local version, "
                    "as in torch-2.6.0-2-cp311-… or 2.6.0+mine2",
                )
            # What is known already stays, and what is new comes to it.
            new = {field: getattr(entry, field) for field in ("report", "origin", "provenance_sha256")}
            entry = msgspec.structs.replace(
                old,
                **{field: value for field, value in new.items() if value},
                proofs=old.proofs + tuple(proof for proof in evidence.proofs if proof not in old.proofs),
                records=tuple({shared.line: shared for shared in (*old.records, *evidence.records)}.values()),
            )
            state = "already" if entry == old else "updated"
        target = house.wheel(name.project, name.file)
        if not target.is_file() or state == "added":
            target.parent.mkdir(parents=True, exist_ok=True)
            incoming.path.replace(target)
            write_atomically(target.with_name(f"{name.file}.metadata"), incoming.read.metadata)
        beside = {".provenance": evidence.provenance, RECORDS: "".join(f"{each.line}\n" for each in entry.records)}
        for suffix, content in beside.items():
            if content:
                write_atomically(target.with_name(f"{name.file}{suffix}"), content)
        if state != "already":
            write_atomically(record, encode(entry))
    warnings = (*incoming.read.warnings, *evidence.warnings)
    return AddedWheel(file=name.file, state=state, sha256=entry.sha256, bytes=entry.bytes, warnings=warnings)


def yank(house: Wheelhouse, file: str, reason: str | None) -> StoredWheel:
    """Mark a wheel as withdrawn (PEP 592), or take the mark away with ``None``; the file stays."""
    with house.lock(f"index yank {file[:80]}"), disk_errors(house.root):
        entry = msgspec.structs.replace(house.entry(file), yanked=reason)
        write_atomically(house.record(entry.project, file), encode(entry))
    return entry


def copy_whole(source: Path, target: Path, progress: Progress) -> tuple[str, int]:
    """Copy a file to the disk itself; its digest and size."""
    with reading(source):
        file = source.open("rb")
    digest, done = hashlib.sha256(), 0
    with file, target.open("xb") as writing:
        total = os.fstat(file.fileno()).st_size
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            writing.write(chunk)
            done += len(chunk)
            progress.step(done, total, source.name)
        writing.flush()
        os.fsync(writing.fileno())
    return digest.hexdigest(), done


@contextlib.contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """A full or read-only disk is told as such; what was there before is untouched."""
    try:
        yield
    except OSError as error:
        free = ""
        with contextlib.suppress(OSError):
            free = f" ({shutil.disk_usage(root).free >> 20} MiB free)"
        raise BadInput(
            f"cannot write to the wheelhouse {root}: {error.strerror or error}{free}",
            remedy="nothing was changed; make room or give a writable directory with --root",
        ) from error


def find_origin(wheel: Path, sha256: str) -> Origin | None:
    """From ``build.json`` beside the wheel, if it speaks about exactly this file."""
    path = wheel.with_name("build.json")
    built = load(path, BuildResult) if path.is_file() else None
    if built is None or Path(built.wheel).name != wheel.name:
        return None
    if built.wheel_sha256 != sha256:
        raise BadInput(
            f"{wheel.name} is not the file that {path} describes (sha256 {sha256[:12]}… against "
            f"{built.wheel_sha256[:12]}…)",
            remedy="it was changed after the build: build it again, or remove build.json if you trust the change",
        )
    known = shared_fields(built.plan, Origin) | shared_fields(built, Origin)
    return Origin(**known | {"patches": tuple(patch.id for patch in built.patches)})


def find_provenance(wheel: Path, sha256: str, check: Check) -> tuple[bytes | None, str | None]:
    """The signed statement beside the wheel in the shape of PEP 740, if it speaks about exactly this file and a
    believed key signed it; or why it is not taken: the house would vouch for it."""
    path = wheel.with_name(f"{wheel.name}.intoto.dsse.json")
    if not path.is_file():
        return None, None
    raw = read_bounded(path, MAX_ENVELOPE_BYTES, "envelope")
    statement = read_statement(raw, path.name)
    if sha256 not in statement.subjects.values():
        text = f"{path.name} is about another file than {wheel.name} (sha256 {sha256[:12]}…)"
        raise BadInput(text, remedy="it was changed after the build: build and sign it again")
    envelope = statement.envelope
    if envelope and envelope.payload_type == IN_TOTO and signed_by(envelope, check) is not None:
        return provenance_object(raw, path.name), None
    return None, "no key that is believed here signed its statement, so it is not served with it (rekindle key trust)"


def check_report(report: WheelReport, name: WheelName, size: int) -> None:
    """A report that was given is believed only where it does not contradict the file beside it."""
    claims = {
        "the project": (report.name and canonicalize_name(report.name), name.project),
        "the version": (report.version, str(name.version)),
        "the size": (report.bytes or None, size),
    }
    for field, (claimed, actual) in claims.items():
        if claimed is not None and claimed != actual:
            text = f"the report is about another file than {name.file}: {field} is {claimed} in it, and {actual} here"
            raise BadInput(text, remedy="leave --report out: the wheel is then inspected itself")


def broken_claims(report: WheelReport | None) -> tuple[str, ...]:
    """What the package says of itself and its bytes do not hold."""
    if report is None or report.quick:
        return ()
    kernels = report.gpu.kernels
    held = {*kernels.sass, *kernels.gfx, *(name.replace("compute_", "sm_") for name in kernels.ptx)}
    claimed = [name for name in report.gpu.declared if name.replace("compute_", "sm_") not in held]
    which = "it" if len(claimed) == 1 else "them"
    words = f"its own list names {', '.join(claimed)}, but no code for {which} is in it"
    return (words,) if held and claimed else ()


def split_proofs(files: Sequence[str]) -> tuple[list[tuple[Path, bytes]], list[Path]]:
    """Records that people shared, with their bytes, and reports of our own ``verify --save``."""
    records, reports = [], []
    for path in map(Path, files):
        raw = read_bounded(path, MAX_DOCUMENT_BYTES, "proof")
        if b'"payloadType"' in raw or b'"proof"' in raw[:200]:
            records.append((path, raw))
        else:
            reports.append(path)
    return records, reports


def take_record(raw: bytes, place: str, sha256: str, report: WheelReport | None, check: Check) -> SharedRecord:
    """What somebody shared about this very file, if nothing in its bytes or in the record itself speaks against it."""
    read = read_record(GivenRecord(place, raw), check)
    if (record := read.record) is None:
        raise BadInput(f"{place} is neither a verification nor a record of one: {read.why}")
    if record.wheel_sha256 != sha256:
        raise BadInput(f"{place} is about another file (sha256 {record.wheel_sha256[:12]}…)")
    kernels = report.gpu.kernels if report and not report.quick else None
    targets = (*kernels.sass, *kernels.ptx, *kernels.gfx) if kernels else ()
    code = GpuCode(targets, report.cuda, report.rocm) if report and targets else None
    if why := find_doubt(record, load_facts(), code, redact=Redactor().text):
        raise BadInput(f"{place} is doubtful: {why}", remedy="leave it out")
    return SharedRecord(line=json.dumps(json.loads(raw), ensure_ascii=True), signer=read.signer)


def check_about(sha256: str, file: str, proofs: tuple[VerifyReport, ...]) -> None:
    """A proof is about one file, by its digest; what speaks of another, or of none, proves nothing about this one."""
    for proof in proofs:
        if proof.wheel_sha256 is None:
            raise BadInput(
                f"the proof of {proof.subject or 'an installed package'} names no wheel, so it says nothing of {file}",
                remedy=f"rekindle verify --wheel {file} --save proof.json makes one that does",
            )
        if proof.wheel_sha256 != sha256:
            text = f"the proof is about another file (sha256 {proof.wheel_sha256[:12]}…) than {file} ({sha256[:12]}…)"
            raise BadInput(text, remedy=f"rekindle verify --wheel {file} --save proof.json")
