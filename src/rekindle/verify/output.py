"""A report as JUnit XML, two reports compared, and one with the last proof that held here: since when is it wrong?"""

import contextlib
import re
from pathlib import Path
from xml.etree import ElementTree  # written, never parsed, so nothing hostile can come in

from rekindle.host.files import write_atomically
from rekindle.model.document import encode, load_kept
from rekindle.model.verify import SinceProof, VerifyChange, VerifyCheck, VerifyComparison, VerifyReport, VerifyStatus

# XML 1.0 has no place for these, not even escaped.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(report: VerifyReport) -> bytes:
    """The report in the form CI servers read."""
    suite = ElementTree.Element(
        "testsuite",
        name=_xml_text(f"rekindle verify {report.subject}"),
        tests=str(len(report.checks)),
        failures=str(report.failed),
        errors="0",
        skipped=str(report.skipped),
        time=f"{report.seconds:.3f}",
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in sorted(report.environment.items()):
        ElementTree.SubElement(properties, "property", name=_xml_text(name), value=_xml_text(value))
    for trial in report.operators:
        name = _xml_text(f"operator {trial.name}")
        ElementTree.SubElement(properties, "property", name=name, value=_xml_text(trial.outcome))
    for check in report.checks:
        group, _, name = check.id.rpartition(".")
        case = ElementTree.SubElement(
            suite, "testcase", classname=group or "verify", name=name, time=f"{check.seconds:.3f}"
        )
        if check.status == "failed":
            failure = ElementTree.SubElement(case, "failure", message=_xml_text(check.detail))
            failure.text = _xml_text(check.remedy or "")
        elif check.status == "skipped":
            ElementTree.SubElement(case, "skipped", message=_xml_text(check.detail))
        else:
            ElementTree.SubElement(case, "system-out").text = _xml_text(check.detail)
    suites = ElementTree.Element("testsuites")
    suites.append(suite)
    ElementTree.indent(suites)
    data: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _xml_text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def compare(before: VerifyReport, after: VerifyReport) -> VerifyComparison:
    """Check by check. A check that passed and then is skipped or gone counts as worse: the proof is gone."""
    old = {check.id: check for check in (*before.checks, *_trial_checks(before))}
    new = {check.id: check for check in (*after.checks, *_trial_checks(after))}
    groups: dict[str, list[VerifyChange]] = {"worse": [], "better": [], "other": []}
    same = 0
    for id in [*old, *(id for id in new if id not in old)]:
        a, b = old.get(id), new.get(id)
        if a and b and a.status == b.status:
            same += 1
            continue
        groups[_direction(a, b)].append(
            VerifyChange(
                id=id,
                before=a.status if a else None,
                after=b.status if b else None,
                detail=(b or a or VerifyCheck(id=id, status="skipped")).detail,
            )
        )
    names = sorted({*before.environment, *after.environment})
    different = {
        name: (before.environment.get(name), after.environment.get(name))
        for name in names
        if before.environment.get(name) != after.environment.get(name)
    }
    return VerifyComparison(
        before=before.subject,
        after=after.subject,
        worse=tuple(groups["worse"]),
        better=tuple(groups["better"]),
        other=tuple(groups["other"]),
        same=same,
        environment=different,
    )


def _trial_checks(report: VerifyReport) -> list[VerifyCheck]:
    """Operators that were tried, as rows like the checks."""
    status: dict[str, VerifyStatus] = {"crashes": "failed", "no-answer": "failed", "runs": "passed"}
    return [
        VerifyCheck(id=f"operator {trial.operator}", status=status.get(trial.outcome, "skipped"), detail=trial.detail)
        for trial in report.operators
        if trial.operator
    ]


def _direction(before: VerifyCheck | None, after: VerifyCheck | None) -> str:
    if (before and before.status == "passed") or (after and after.status == "failed"):
        return "worse"
    if (after and after.status == "passed") or (before and before.status == "failed"):
        return "better"
    return "other"


# What may explain a difference; times and paths never do.
_TELLING = ("torch", "spark", "cuda", "hip", "xpu", "python", "machine", "gpu0", "cpu model", "emulator", "settings")


def proof_place(cache: Path, package: str, level: str, emulated: bool) -> Path:
    return cache / "proofs" / f"{package}-{level}{'-emulated' if emulated else ''}.json"


def compare_with_last(report: VerifyReport, place: Path) -> SinceProof | None:
    """For a report that is no proof: which of its checks passed then, and what is different since."""
    if report.verdict == "proven":
        return None
    last = load_kept(place, VerifyReport)
    if last is None:
        return None
    passed = {check.id for check in last.checks if check.status == "passed"}
    worse = tuple(check.id for check in report.checks if check.status == "failed" and check.id in passed)
    changed = {
        name: f"{last.environment.get(name, 'none')} → {report.environment.get(name, 'none')}"
        for name in _TELLING
        if last.environment.get(name) != report.environment.get(name)
    }
    return SinceProof(subject=last.subject, wheel_sha256=last.wheel_sha256, worse=worse, changed=changed)


def keep_proof(report: VerifyReport, place: Path) -> None:
    """Only a proof is kept; a cache that cannot be written costs the comparison and nothing else."""
    if report.verdict == "proven":
        with contextlib.suppress(OSError):
            write_atomically(place, encode(report))
