"""A report as JUnit XML, two reports compared, and one with the last proof that held here: since when is it wrong?"""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree  # written, never parsed, so nothing hostile can come in

from rekindle.host.files import write_atomically
from rekindle.model.document import encode, load_kept
from rekindle.model.verify import SinceProof, VerifyChange, VerifyCheck, VerifyComparison, VerifyReport, VerifyStatus

# XML 1.0 has no place for these, not even escaped.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(report: VerifyReport) -> bytes:
    """Checks as test cases; operators that were tried as properties beside the environment."""
    suites = ElementTree.Element("testsuites")
    counts = {"tests": len(report.checks), "failures": report.failed, "errors": 0, "skipped": report.skipped}
    words = {name: str(count) for name, count in counts.items()}
    title = f"rekindle verify {report.subject}"
    suite = _add_element(suites, "testsuite", name=title, **words, time=f"{report.seconds:.3f}")
    properties = _add_element(suite, "properties")
    trials = ((f"operator {trial.name}", trial.outcome) for trial in report.operators)
    for name, value in (*sorted(report.environment.items()), *trials):
        _add_element(properties, "property", name=name, value=value)
    for check in report.checks:
        group, _, name = check.id.rpartition(".")
        case = _add_element(suite, "testcase", classname=group or "verify", name=name, time=f"{check.seconds:.3f}")
        if check.status == "failed":
            _add_element(case, "failure", check.remedy or "", message=check.detail)
        elif check.status == "skipped":
            _add_element(case, "skipped", message=check.detail)
        else:
            _add_element(case, "system-out", check.detail)
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add_element(parent: ElementTree.Element, tag: str, text: str | None = None, **fields: str) -> ElementTree.Element:
    clean = {name: _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value) for name, value in fields.items()}
    element = ElementTree.SubElement(parent, tag, clean)
    element.text = _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text) if text is not None else None
    return element


def compare(before: VerifyReport, after: VerifyReport) -> VerifyComparison:
    """Check by check. A check that passed and then is skipped or gone counts as worse: the proof is gone."""
    old = {check.id: check for check in (*before.checks, *_trial_checks(before))}
    new = {check.id: check for check in (*after.checks, *_trial_checks(after))}
    groups: dict[str, list[VerifyChange]] = {"worse": [], "better": [], "other": []}
    same = 0
    for id, last in (old | new).items():
        was, now = (checks[id].status if id in checks else None for checks in (old, new))
        if was == now:
            same += 1
            continue
        unless = "better" if now == "passed" or was == "failed" else "other"
        direction = "worse" if was == "passed" or now == "failed" else unless
        groups[direction].append(VerifyChange(id=id, before=was, after=now, detail=last.detail))
    env = _differences(before, after, sorted({*before.environment, *after.environment}))
    worse, better, other = map(tuple, groups.values())
    return VerifyComparison(
        before=before.subject, after=after.subject, worse=worse, better=better, other=other, same=same, environment=env
    )


def _differences(
    old: VerifyReport, new: VerifyReport, names: Iterable[str]
) -> dict[str, tuple[str | None, str | None]]:
    """Where their environments differ."""
    pairs = {name: (old.environment.get(name), new.environment.get(name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _trial_checks(report: VerifyReport) -> list[VerifyCheck]:
    """Operators that were tried, as rows like the checks."""
    status: dict[str, VerifyStatus] = {"crashes": "failed", "no-answer": "failed", "runs": "passed"}
    return [
        VerifyCheck(id=f"operator {trial.operator}", status=status.get(trial.outcome, "skipped"), detail=trial.detail)
        for trial in report.operators
        if trial.operator
    ]


# What may explain a difference; times and paths never do.
_TELLING = ("torch", "spark", "cuda", "hip", "xpu", "python", "machine", "gpu0", "cpu model", "emulator", "settings")


def proof_place(cache: Path, package: str, level: str, emulated: bool) -> Path:
    """One place for each kind of proof: the next of its kind replaces it."""
    return cache / "proofs" / f"{package}-{level}{'-emulated' if emulated else ''}.json"


def compare_with_last(report: VerifyReport, place: Path) -> SinceProof | None:
    """For a report that is no proof: which of its checks passed then, and what is different since."""
    last = load_kept(place, VerifyReport) if report.verdict != "proven" else None
    if last is None:
        return None
    passed = {check.id for check in last.checks if check.status == "passed"}
    worse = tuple(check.id for check in report.checks if check.status == "failed" and check.id in passed)
    pairs = _differences(last, report, _TELLING).items()
    changed = {name: f"{was or 'none'} → {now or 'none'}" for name, (was, now) in pairs}
    return SinceProof(subject=last.subject, wheel_sha256=last.wheel_sha256, worse=worse, changed=changed)


def keep_proof(report: VerifyReport, place: Path) -> None:
    """Only a proof is kept; a cache that cannot be written costs the comparison and nothing else."""
    if report.verdict == "proven":
        with contextlib.suppress(OSError):
            write_atomically(place, encode(report))
