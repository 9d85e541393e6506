"""Proofs that travel: a verification as a record anybody can post, and a folder of such records reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle import __version__
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import write_for_user
from rekindle.model.document import encode
from rekindle.model.proof import ProofCheck, ProofRecord, RecordReview, WeighedRecord, card_of
from rekindle.model.verify import VerifyReport

if TYPE_CHECKING:
    from rekindle.model.machine import Machine

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
    from rekindle.api.plan import this_machine
    from rekindle.compat.proofs import doubt

    record = record_of(report, machine or this_machine())
    if why := doubt(record, load_facts()):
        raise BadInput(f"this cannot be shared as it is: {why}")
    raw = encode(record)
    if sign is not None:
        from rekindle.formats.dsse import PROOF_RECORD, seal
        from rekindle.host.keys import read_private

        private = read_private(sign)
        raw = seal(PROOF_RECORD, raw, private.id, private.sign)
    write_for_user(path, raw)


def record_of(report: VerifyReport, machine: Machine) -> ProofRecord:
    """The record of a report; only what a record may hold is looked at."""
    from rekindle.host.redact import redactor_here

    told = report.environment
    digest = report.wheel_sha256 or _installed_digest(told.get("executable", ""))
    if digest is None:
        raise BadInput(
            "this run names no wheel by its digest, so a record of it would be about no file",
            remedy="rekindle verify --wheel FILE --share RECORD.json",
        )
    package = "torch" if "torch" in told else "spark"
    redact = redactor_here().text
    cards = [card for name, text in sorted(told.items()) if name[:3] == "gpu" and (card := card_of(text)) is not None]
    elsewhere = "events" in told
    return ProofRecord(
        package=package,
        version=told.get(package, "0"),
        wheel_sha256=digest,
        verdict=report.verdict,
        level=report.level,
        claims=tuple(claim for claim in ("cpu", "gpu") if claim in report.claims),
        checks=tuple(
            ProofCheck(
                id=check.id,
                status=check.status,
                why=_plain(redact(check.detail)) if check.status == "failed" else "",
            )
            for check in report.checks
        ),
        system=machine.os.system,
        arch=told.get("machine", machine.os.arch or "unknown").replace("AMD64", "x86_64"),
        distro=None if elsewhere else machine.os.distro,
        cpu=None if elsewhere else told.get("cpu") or machine.cpu.microarchitecture,
        cards=tuple(cards),
        driver=None if elsewhere else machine.drivers.nvidia or machine.drivers.amdgpu,
        cuda=told.get("cuda"),
        rocm=told.get("hip"),
        python=".".join(told["python"].split(".")[:2]) if "python" in told else None,
        tool=f"rekindle {told.get('rekindle', __version__)}",
        day=datetime.now(UTC).strftime("%Y-%m-%d"),
    )


def _plain(text: str) -> str:
    """One short line without paths: only the last part of each is kept, which names a file and nobody's folder."""
    words = (
        word.replace("\\", "/").rsplit("/", 1)[-1] if word.count("/") + word.count("\\") > 1 else word
        for word in text.split()
    )
    return "".join(letter for letter in " ".join(words) if letter.isprintable())[:_LONGEST]


def _installed_digest(python: str) -> str | None:
    """The wheel that ``up`` installed there, where nothing was changed since."""
    from rekindle.host.live import LiveHost
    from rekindle.host.workspace import workspace_at
    from rekindle.interpreters.packages import look_into
    from rekindle.model.document import load_kept
    from rekindle.model.journey import Installation

    kept = load_kept(workspace_at(None).reports / "install.json", Installation)
    if kept is None or not python or kept.python != python or not kept.fingerprint:
        return None
    return kept.wheel_sha256 if look_into(LiveHost(), python).fingerprint == kept.fingerprint else None


def weighed_from(place: str, keys: Sequence[Path] = ()) -> tuple[WeighedRecord, ...]:
    """The records of a folder, a file or an address, weighed; ``keys`` are the only ones believed, where given."""
    from rekindle.compat.proofs import find_records, weigh_records
    from rekindle.errors import has_package
    from rekindle.host.keys import checker, read_public, trusted_keys

    given = find_records(place)
    believed = [] if not has_package("cryptography") else [read_public(key) for key in keys] or trusted_keys()
    return weigh_records(given, checker(believed), load_facts())


def review_records(place: str, *, keys: Sequence[Path] = ()) -> RecordReview:
    """Every record of a folder with its standing: what a check of a pull request runs.

    >>> review_records(str(folder)).good
    True
    """
    records = weighed_from(place, keys)
    return RecordReview(
        place=place, good=all(one.standing in ("counts", "hearsay") for one in records), records=records
    )
