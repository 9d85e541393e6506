"""The diagnoses inside other verbs: a failed build, command or verification, a torch the doctor finds broken."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from rekindle.api.explain import explain
from rekindle.host.redact import redactor_here

if TYPE_CHECKING:
    from rekindle.model.build import BuildFailure
    from rekindle.model.diagnosis import Diagnosis, Match
    from rekindle.model.machine import Check, Examination, Machine
    from rekindle.model.plan import Plan
    from rekindle.model.verify import VerifyReport


def with_cause(failure: BuildFailure, plan: Plan | None = None) -> BuildFailure:
    """The failure with its diagnosis: of the failed command alone if that is certain, else of the whole log."""
    found = explain("\n".join([failure.command or "", *failure.error]), plan=plan)
    if not _certain(found) and failure.log and Path(failure.log).is_file():
        whole = explain(Path(failure.log), plan=plan)
        found = whole if whole.matches else found
    return replace(failure, diagnosis=found)


def advice_on(said: str) -> Match | None:
    """The known cause of what a command said; None where it is only a guess, or no cause is known."""
    found = explain(said)
    first = found.matches[0] if found.matches else None
    return None if first is None or first.confidence == "low" or found.unexplained is not None else first


def remedy_for(said: str) -> str | None:
    """The known cause and its first step, in one line."""
    known = advice_on(said)
    return f"{known.title}: {known.fix[0]}" if known and known.fix else None


def proof_with_causes(report: VerifyReport) -> VerifyReport:
    """What the failed checks said, diagnosed; a report without failures stays as it is."""
    said = [check.detail for check in report.checks if check.status == "failed"]
    if not said:
        return report
    found = explain("\n".join(said))
    refused = [check for check in report.checks if check.status == "failed"]
    if all(check.crash is not None and check.crash.isa for check in refused):
        # The very instruction and its set are known: what the words alone suggest can only be less right.
        found = replace(found, matches=tuple(match for match in found.matches if match.confidence != "low"))
    return replace(report, diagnosis=found) if found.matches else report


def examination_with_causes(examination: Examination) -> Examination:
    """A broken torch gets the remedy of its error where that is certain."""
    checks = tuple(_fixed(check, examination.machine) for check in examination.checks)
    return replace(examination, checks=checks) if checks != examination.checks else examination


def _fixed(check: Check, machine: Machine) -> Check:
    if check.id != "torch" or check.status == "ok" or not check.why:
        return check
    found = explain(check.why, machine=machine)
    if not _certain(found):
        return check
    first = found.matches[0]
    return replace(check, why=f"{check.why} ({first.title}; rekindle explain --rule {first.id})", fix=first.fix[0])


def _certain(diagnosis: Diagnosis) -> bool:
    return bool(diagnosis.matches) and diagnosis.matches[0].confidence == "high"


def redacted(text: str) -> str:
    """The text without who and where, tokens and passwords.

    >>> redacted("Authorization: Bearer abcdefgh12345678")
    'Authorization: redacted'
    """
    return redactor_here().text(text)
