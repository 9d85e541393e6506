"""A verification and a comparison of two, for people."""

from collections import Counter
from collections.abc import Sequence

from rekindle.compat.processor import describe_trials
from rekindle.model.guard import GuardReport
from rekindle.model.verify import RecordReview, VerifyCheck, VerifyComparison, VerifyReport
from rekindle.model.wheel import OperatorTrial
from rekindle.render.screen import Screen, shown_as

# Failures of one kind that are shown whole.
MOST_ALIKE = 3


def view_verification(report: VerifyReport, screen: Screen) -> None:
    count = f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped in {report.seconds:.1f} s"
    subject = report.subject or "this torch"
    alone = "gpu" not in report.claims and {"cuda", "hip", "xpu"} & report.environment.keys()
    part = ", CPU part alone" if alone else ""
    harmed = sum(trial.harms for trial in report.operators)
    if harmed:
        count = count.replace(" failed,", f" failed, {harmed} operator{'s' * (harmed > 1)} crashed,")
    status, words = shown_as("proof", report.verdict)
    level = f"({report.level}{part if report.verdict == 'proven' else ''})"
    if report.verdict == "proven" and harmed:
        screen.verdict("warn", f"{subject} {level}: {describe_trials(report.operators)}; {count}")
    else:
        screen.verdict(status, f"{subject} {words} {level}: {count}")
    place = ("torch", "cuda", "hip", "xpu", "python", "machine", "cpu model", "emulator", "sandbox", "installed")
    shown = [*place, *sorted(name for name in report.environment if name.startswith("gpu"))]
    screen.rows([(name, report.environment[name]) for name in shown if name in report.environment])
    if report.verdict == "not-proven":
        screen.section("a proof also needs")
        idle = [need.id for need in report.missing if need.why == "did not run"]
        begun = (f"{need.id}: {need.why}" for need in report.missing if need.why != "did not run")
        screen.bullets(begun, status="warn")
        if idle:
            more = f" and {len(idle) - 6} more" if len(idle) > 6 else ""
            screen.bullet(f"never ran: {', '.join(idle[:6])}{more}", status="warn")
    _show_failures([check for check in report.checks if check.status == "failed"], screen)
    _show_operators(report.operators, screen)
    screen.causes(report.diagnosis.matches[:2], "cause")
    skipped = [check for check in report.checks if check.status == "skipped"]
    why = {"absent": "absent by plan", "foretold": "foretold"}
    reasons = (f"{check.id} ({why.get(check.skip or '', 'could not be tried')}): {check.detail}" for check in skipped)
    screen.bullets(reasons, status="skip", title="skipped")
    better = [f"{check.id}: {check.detail}" for check in report.checks if check.foretold and check.status == "passed"]
    screen.bullets(better, status="warn", title="works, though a graft said it would not")
    if since := report.since:
        digest = f" (sha256 {since.wheel_sha256[:12]}…)" if since.wheel_sha256 else ""
        screen.section(f"the last proof here was {since.subject}{digest}")
        if since.worse:
            screen.bullet(f"passed then: {', '.join(since.worse[:8])}", status="fail")
        screen.bullets(f"{name}: {change}" for name, change in since.changed.items())
    screen.bullets(report.next, title="next")
    if screen.verbosity:
        passed = [check for check in report.checks if check.status == "passed"]
        screen.rows([(check.id, f"{check.seconds:.2f} s", check.detail) for check in passed], title="passed")


def _show_operators(trials: Sequence[OperatorTrial], screen: Screen) -> None:
    """What asks nothing of the CPU and was tried for it."""
    if trials:
        screen.section("tried because their code uses what this CPU lacks")
    for trial in trials:
        lacks = f" [{', '.join(trial.isa)}]" if trial.isa else ""
        detail = f": {trial.detail}" if trial.detail else ""
        status, words = shown_as("operator", trial.outcome)
        screen.bullet(f"{trial.name}{lacks} {words}{detail}", status=status)
        if trial.avoid and trial.outcome == "crashes":
            screen.paragraph(f"→ instead: {trial.avoid}", indent=4)


def _show_failures(failed: Sequence[VerifyCheck], screen: Screen) -> None:
    """Each, unless many died alike: then a few, and the names of the others."""
    if failed:
        screen.section("failed")
    shown: Counter[str] = Counter()
    alike: dict[str, list[str]] = {}
    for check in failed:
        kind = check.crash.signal if check.crash else ""
        shown[kind] += 1
        if kind and shown[kind] > MOST_ALIKE and not screen.verbosity:
            alike.setdefault(kind, []).append(check.id)
        else:
            screen.bullet(f"{check.id}: {check.detail}", status="fail")
            if check.remedy:
                screen.paragraph(f"→ {check.remedy}", indent=4)
    for kind, ids in alike.items():
        screen.bullet(f"{len(ids)} more died of {kind}: {', '.join(ids)} (-v shows them)", status="fail")


def _view_comparison(comparison: VerifyComparison, screen: Screen) -> None:
    if comparison.worse:
        screen.verdict("fail", f"{len(comparison.worse)} checks got worse, {len(comparison.better)} better")
    else:
        screen.verdict("ok", f"nothing got worse; {len(comparison.better)} better, {comparison.same} the same")
    screen.rows([("before", comparison.before), ("after", comparison.after)])
    for title, changes, status in (
        ("worse", comparison.worse, "fail"),
        ("better", comparison.better, "ok"),
        ("otherwise different", comparison.other, "warn"),
    ):
        ways = (f"{row.id}: {row.before or 'not run'} → {row.after or 'not run'}  {row.detail}" for row in changes)
        screen.bullets(ways, status=status, title=title)
    changed = [(key, f"{a or '–'} → {b or '–'}") for key, (a, b) in sorted(comparison.environment.items())]
    screen.rows(changed, title="environment")


def _guard_view(report: GuardReport, screen: Screen) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.found.items())) or "no torch"
    if report.written:
        screen.verdict("ok", f"Recorded: {versions}")
        screen.paragraph(f"Keeps it: python -m pip install -c {report.kept} PACKAGE")
        return
    if report.kept is None:
        screen.verdict("skip", f"{versions}; nobody wrote down what was meant")
        screen.paragraph(f"rekindle guard --python {report.python} --record writes it down")
        return
    if report.good:
        screen.verdict("ok", f"As it was meant: {versions}")
        return
    gone = ", ".join(
        f"{package.name} {package.was} → {'other files' if package.now == package.was else package.now or 'gone'}"
        for package in report.replaced
    )
    screen.verdict("fail", f"Replaced: {gone}")
    for package in report.replaced:
        others = (f"{culprit.name} {culprit.version} takes {culprit.wants}" for culprit in package.culprits[1:])
        screen.bullet(package.why, status="fail", below=others)
    screen.commands("What restores it", (line for package in report.replaced for line in package.restore))
    first = next((who for package in report.replaced for who in package.culprits), None)
    if first is not None:
        screen.paragraph(f"Then take a {first.name} that fits: rekindle plan --with {first.name} names it.")
    screen.paragraph(f"So that it cannot happen again: python -m pip install -c {report.kept} PACKAGE")


def _show_records(review: RecordReview, screen: Screen) -> None:
    total = len(review.records)
    bad = review.count("doubtful") + review.count("unreadable")
    counts = f"{review.count('counts')} count, {review.count('hearsay')} are signed by nobody who is believed here"
    screen.verdict("ok" if review.good else "fail", f"{total} records: {counts}, {bad} are not good")
    for entry in review.records:
        if entry.standing in ("doubtful", "unreadable"):
            screen.bullet(f"{entry.place}: {entry.standing}: {entry.why}", status="fail")
        elif entry.outlier and entry.record is not None:
            said = f"{entry.record.verdict} on {entry.record.where}, others say otherwise"
            screen.bullet(f"{entry.place}: {said}", status="warn")
        elif screen.verbosity and entry.record is not None:
            name = f"{entry.record.package} {entry.record.version}"
            by = f", signed by {entry.signer}" if entry.signer else ""
            screen.bullet(f"{entry.place}: {name} {entry.record.verdict} on {entry.record.where}{by}", status="ok")
