"""The last proof that held here, kept so that a failed one can say since when something is wrong."""

from __future__ import annotations

import contextlib
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.model.document import encode, load
from rekindle.model.verify import SinceProof, VerifyReport

# What may explain a difference; times and paths never do.
_TELLING = ("torch", "spark", "cuda", "hip", "xpu", "python", "machine", "gpu0", "cpu model", "emulator", "settings")


def place_of(cache: Path, package: str, level: str, emulated: bool) -> Path:
    return cache / "proofs" / f"{package}-{level}{'-emulated' if emulated else ''}.json"


def compare_with_last(report: VerifyReport, place: Path) -> SinceProof | None:
    """For a report that is no proof: which of its checks passed then, and what is different since."""
    if report.verdict == "proven":
        return None
    try:
        last = load(place, VerifyReport)
    except BadInput:
        return None
    passed = {check.id for check in last.checks if check.status == "passed"}
    worse = tuple(check.id for check in report.checks if check.status == "failed" and check.id in passed)
    changed = {
        name: f"{last.environment.get(name, 'none')} → {report.environment.get(name, 'none')}"
        for name in _TELLING
        if last.environment.get(name) != report.environment.get(name)
    }
    return SinceProof(subject=last.subject, wheel_sha256=last.wheel_sha256, worse=worse, changed=changed)


def keep(report: VerifyReport, place: Path) -> None:
    """Only a proof is kept; a cache that cannot be written costs the comparison and nothing else."""
    if report.verdict == "proven":
        with contextlib.suppress(OSError):
            write_atomically(place, encode(report))
