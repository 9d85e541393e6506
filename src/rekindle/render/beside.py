"""Companions for people: one line each with its verdict, then how to get it, then what each torch would cost."""

from __future__ import annotations

from rekindle.model.plan import Companion, Plan
from rekindle.render.screen import Screen

_MARK = {"runs": "ok", "last": "ok", "build": "warn", "alternative": "warn", "none": "fail", "unknown": "skip"}
_WORDS = {
    "runs": "runs",
    "last": "last that runs",
    "build": "from source",
    "alternative": "another's build",
    "none": "does not run",
    "unknown": "not known",
}


def companions_view(plan: Plan, screen: Screen) -> None:
    """The section about what was asked for beside torch."""
    screen.section(f"Beside torch {plan.torch}" if plan.torch else "Beside torch")
    for one in plan.companions:
        _companion(one, screen)
    commands = [line for one in plan.companions for line in one.commands]
    if commands:
        screen.line()
        for line in dict.fromkeys(commands):
            screen.command(line)
    if plan.choices:
        screen.section("What each torch gives and costs")
        screen.rows(
            [
                (
                    f"torch {choice.torch}" + (f"+{choice.variant}" if choice.variant else ""),
                    "taken" if choice.taken else "",
                    ", ".join(choice.gives) or "nothing of it",
                    "; ".join(choice.costs),
                )
                for choice in plan.choices
            ]
        )


def _companion(one: Companion, screen: Screen) -> None:
    version = f" {one.version}" if one.version and one.answer != "alternative" else ""
    screen.bullet(f"{one.name}{version}: {_WORDS[one.answer]}. {one.why}", status=_MARK[one.answer])
    if one.cost:
        screen.paragraph(f"Cost: {one.cost}.", indent=6)
    for note in one.notes:
        screen.paragraph(note, indent=6)
    if one.instead:
        lead = "From" if one.answer == "alternative" else "Does the same work:"
        state = "" if one.answer == "alternative" else f": {one.state}"
        screen.paragraph(f"{lead} {one.instead}{state} ({one.url})", indent=6)
    if one.wants and one.answer != "runs":
        screen.paragraph(f"A torch {one.wants} would serve it.", indent=6)
    if screen.verbosity and one.source:
        screen.paragraph(f"[{one.source}]", indent=6)
