"""Proofs that travel: a verification as a record anybody can post, and a folder of such records reviewed."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rekindle import __version__
from rekindle.compat.proofs import LIST, MAX_RECORD_BYTES, GivenRecord, find_doubt, weigh_records
from rekindle.errors import BadInput, has_package
from rekindle.facts import load_facts
from rekindle.formats.ranges import read_page
from rekindle.formats.statement import PROOF_RECORD, seal
from rekindle.host.files import write_for_user
from rekindle.host.keys import checker, read_private, read_public, trusted_keys
from rekindle.host.live import LiveHost
from rekindle.host.redact import Redactor, redactor_here
from rekindle.host.workspace import workspace_at
from rekindle.model.document import encode, load_kept, read_bounded
from rekindle.model.journey import Installation
from rekindle.model.machine import Machine
from rekindle.model.verify import ProofCheck, ProofRecord, RecordReview, VerifyReport, WeighedRecord, card_of

MAX_RECORDS = 20_000
MAX_LIST_BYTES = 64 << 20
_LONGEST = 200


def share_proof(report: VerifyReport, path: Path, *, sign: str | None = None, machine: Machine | None = None) -> None:
    """Write a verification as a record: what ran where, and nothing that names a person or a machine.

    ``sign`` names a key; ``machine`` is where it ran (default: this one). Passed checks go without their words, since
    those name places; a failed one's go through the redactor.

    >>> from rekindle.model.verify import VerifyCheck, VerifyReport
    >>> checks = (VerifyCheck(id="version", status="passed"),)
    >>> ran = VerifyReport(wheel_sha256="0" * 64, environment={"torch": "2.7.1"}, checks=checks)
    >>> share_proof(ran, folder / "record.json")
    >>> '"version": "2.7.1"' in (folder / "record.json").read_text()
    True
    """
    from rekindle.doctor.examine import examine

    record = record_of(report, machine or examine(LiveHost()).examination.machine)
    if why := find_doubt(record, load_facts(), redact=redactor_here().text):
        raise BadInput(f"this cannot be shared as it is: {why}")
    raw = encode(record)
    if sign is not None:
        private = read_private(sign)
        raw = seal(PROOF_RECORD, raw, private.id, private.sign)
    write_for_user(path, raw)


def record_of(report: VerifyReport, machine: Machine) -> ProofRecord:
    """The record of a report; only what a record may hold is looked at."""
    env = report.environment
    digest = report.wheel_sha256 or _installed_digest(env.get("executable", ""))
    if digest is None:
        raise _about_no_file()
    package = "torch" if "torch" in env else "spark"
    redact = redactor_here().text
    cards = [card for name, text in sorted(env.items()) if name[:3] == "gpu" and (card := card_of(text)) is not None]
    elsewhere = "events" in env
    return ProofRecord(
        package=package,
        version=env.get(package, "0"),
        wheel_sha256=digest,
        verdict=report.verdict,
        level=report.level,
        claims=tuple(claim for claim in ("cpu", "gpu") if claim in report.claims),
        checks=tuple(
            ProofCheck(
                id=check.id,
                status=check.status,
                why=_plain_line(redact(check.detail)) if check.status == "failed" else "",
            )
            for check in report.checks
        ),
        crashes=tuple(_plain_line(trial.name) for trial in report.operators if trial.harms),
        system=machine.os.system,
        arch=env.get("machine", machine.os.arch or "unknown").replace("AMD64", "x86_64"),
        distro=None if elsewhere else machine.os.distro,
        cpu=None if elsewhere else env.get("cpu") or machine.cpu.microarchitecture,
        cards=tuple(cards),
        driver=None if elsewhere else machine.drivers.nvidia or machine.drivers.amdgpu,
        cuda=env.get("cuda"),
        rocm=env.get("hip"),
        python=".".join(env["python"].split(".")[:2]) if "python" in env else None,
        tool=f"rekindle {env.get('rekindle', __version__)}",
        day=datetime.now(UTC).strftime("%Y-%m-%d"),
    )


def _plain_line(text: str) -> str:
    """One short line without paths: only the last part of each is kept, which names a file and nobody's folder."""
    pieces = [(word, word.replace("\\", "/").split("/")) for word in text.split()]
    words = " ".join(parts[-1] if len(parts) > 2 else word for word, parts in pieces)
    return "".join(filter(str.isprintable, words))[:_LONGEST]


def check_shareable() -> None:
    """Before minutes of checks: a record of what is installed here needs a wheel that ``up`` installed (BadInput).

    >>> check_shareable()
    Traceback (most recent call last):
    rekindle.errors.BadInput: this run names no wheel by its digest, so a record of it would be about no file
    """
    if (install := _kept_installation()) is None or install.wheel_sha256 is None:
        raise _about_no_file()


def _about_no_file() -> BadInput:
    remedy = "rekindle verify --wheel FILE --share RECORD.json"
    return BadInput("this run names no wheel by its digest, so a record of it would be about no file", remedy=remedy)


def _kept_installation() -> Installation | None:
    install = load_kept(workspace_at(None).reports / "install.json", Installation)
    return install if install is not None and install.fingerprint else None


def _installed_digest(python: str) -> str | None:
    """The wheel that ``up`` installed there, where nothing was changed since."""
    from rekindle.interpreters.packages import look_into

    if (install := _kept_installation()) is None or install.python != python:
        return None
    return install.wheel_sha256 if look_into(LiveHost(), python).fingerprint == install.fingerprint else None


def find_records(place: str) -> list[GivenRecord]:
    """Every record of a folder (``*.json``, ``*.jsonl``, no links), a file or an address (with a slash: its
    ``proofs.jsonl``), once."""
    path = Path(place)
    if place.startswith(("http://", "https://")):
        url = f"{place}{LIST}" if place.endswith("/") else place
        found = _split_list(url, read_page(url, most=MAX_LIST_BYTES))
    elif path.is_file():
        found = _split_list(str(path), read_bounded(path, MAX_LIST_BYTES, "list of records"))
    elif path.is_dir():
        found = _read_folder(path)
    else:
        raise BadInput(f"there are no records at {place}", remedy="name a folder, a file or an address")
    unique: dict[bytes, GivenRecord] = {}
    for record in found:
        unique.setdefault(record.raw.strip(), record)
        if len(unique) > MAX_RECORDS:
            raise BadInput(f"there are more than {MAX_RECORDS} records", remedy="name a smaller list")
    return list(unique.values())


def _read_folder(folder: Path) -> Iterator[GivenRecord]:
    for path in sorted(folder.rglob("*.json*")):
        inside = path.relative_to(folder)
        plain = path.is_file() and not any((folder / part).is_symlink() for part in (inside, *inside.parents))
        if plain and path.suffix in (".json", ".jsonl") and not any(part.startswith(".") for part in inside.parts):
            most = MAX_RECORD_BYTES if path.suffix == ".json" else MAX_LIST_BYTES
            try:
                raw = read_bounded(path, most, "record")
            except BadInput:
                raw = b""
            yield from _split_list(inside.as_posix(), raw)


def _split_list(place: str, raw: bytes) -> Iterator[GivenRecord]:
    """A list has a record on each line; anything else is one record."""
    if not place.endswith(".jsonl"):
        yield GivenRecord(place, raw)
        return
    for number, line in enumerate(raw.splitlines(), 1):
        if line.strip():
            yield GivenRecord(f"{place}:{number}", line)


def weighed_from(place: str, keys: Sequence[Path] = ()) -> tuple[WeighedRecord, ...]:
    """The records of a folder, a file or an address, weighed; ``keys`` are the only ones believed, where given."""
    given = find_records(place)
    believed = [] if not has_package("cryptography") else [read_public(key) for key in keys] or trusted_keys()
    # Whoever runs this is named nowhere in a stranger's record: people are found by the shape of their names alone.
    return weigh_records(given, checker(believed), load_facts(), redact=Redactor().text)


def review_records(place: str, *, keys: Sequence[Path] = ()) -> RecordReview:
    """Every record of a folder with its standing: what a check of a pull request runs.

    >>> review_records(str(folder)).good
    True
    """
    records = weighed_from(place, keys)
    good = all(record.standing in ("counts", "hearsay") for record in records)
    return RecordReview(place=place, good=good, records=records)
