"""Operators that may crash on this CPU: what is asked of the agent, and what its answers mean."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from rekindle.compat.processor import SILENT, Suspicion, missing
from rekindle.host.files import write_atomically
from rekindle.model.document import encode
from rekindle.model.verify import VerifyCheck, VerifyReport
from rekindle.model.wheel import CodeEvidence, KeptTrials, OperatorTrial, Outcome

# What the call said it would do next, as the agent tells a crash.
_STEP = re.compile(r" in step ([^:]{1,60})")


def outcomes(suspects: Sequence[Suspicion], tried: Mapping[str, VerifyCheck]) -> tuple[OperatorTrial, ...]:
    """Each suspicion with what came of it; one the agent never came to was not tried."""
    trials = [suspect.trial() for suspect in suspects]
    for number, suspect in enumerate(suspects):
        if suspect.call is not None:
            outcome, detail = _outcome(tried.get(suspect.call.id))
            where = _STEP.search(detail)
            name = f"{suspect.call.operator} on {where[1]}" if where else suspect.call.operator
            trials[number] = msgspec.structs.replace(trials[number], operator=name, outcome=outcome, detail=detail)
    return tuple(trials)


def _outcome(check: VerifyCheck | None) -> tuple[Outcome, str]:
    if check is None:
        return "not-tried", "the run ended before its turn"
    if check.status == "passed":
        return "runs", ""
    if check.status == "skipped":
        return "not-tried", check.detail
    if check.crash is not None or check.detail.startswith("the interpreter"):
        return "crashes", check.detail
    return ("no-answer" if check.detail.startswith("no answer") else "refuses"), check.detail


def place_of(cache: Path, evidence: Iterable[CodeEvidence], features: Iterable[str]) -> Path | None:
    """Where the trials of one build on one kind of CPU are kept; None where nothing of it is suspected.

    Two builds differ in addresses, two kinds of CPU in what they lack of the instruction sets in question.
    """
    have = frozenset(features)
    lines = sorted(
        f"{code.file} {code.function} {code.address} {' '.join(lacking)}"
        for code in evidence
        if (lacking := [isa for isa in missing(code.isa, have) if isa not in SILENT])
    )
    if not lines:
        return None
    return cache / "trials" / (hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32] + ".json")


def keep_trials(report: VerifyReport, place: Path) -> None:
    """A cache that cannot be written costs the agreement on a later day and nothing else."""
    illegal = [check for check in report.checks if check.crash is not None and check.crash.signal == "SIGILL"]
    record = KeptTrials(
        subject=report.subject,
        date=datetime.now(UTC).date().isoformat(),
        verdict=report.verdict,
        crash=f"{illegal[0].id} {illegal[0].detail}" if illegal else None,
        trials=report.operators,
    )
    with contextlib.suppress(OSError):
        write_atomically(place, encode(record))
