"""Whether a torch is still the one that was meant, for people."""

from __future__ import annotations

from rekindle.model.guard import GuardReport
from rekindle.render.screen import Screen


def guard_view(report: GuardReport, screen: Screen) -> None:
    """The verdict, the culprit, the line that restores it."""
    here = ", ".join(f"{name} {version}" for name, version in sorted(report.found.items())) or "no torch"
    if report.written:
        screen.verdict("ok", f"Recorded: {here}")
        screen.paragraph(f"Keeps it: python -m pip install -c {report.kept} PACKAGE")
        return
    if report.kept is None:
        screen.verdict("skip", f"{here}; nobody wrote down what was meant")
        screen.paragraph(f"rekindle guard --python {report.python} --record writes it down")
        return
    if report.good:
        screen.verdict("ok", f"As it was meant: {here}")
        return
    gone = ", ".join(f"{one.name} {one.was} → {one.now or 'gone'}" for one in report.replaced)
    screen.verdict("fail", f"Replaced: {gone}")
    for one in report.replaced:
        screen.bullet(one.why, status="fail")
        for culprit in one.culprits[1:]:
            screen.paragraph(f"{culprit.name} {culprit.version} takes {culprit.wants}", indent=6)
    screen.section("What restores it")
    for one in report.replaced:
        for line in one.restore:
            screen.command(line)
    first = next((who for one in report.replaced for who in one.culprits), None)
    if first is not None:
        screen.paragraph(f"Then take a {first.name} that fits: rekindle plan --with {first.name} names it.")
    screen.paragraph(f"So that it cannot happen again: python -m pip install -c {report.kept} PACKAGE")
