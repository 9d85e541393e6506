"""A walk for people: verdict, the legs, where everything lies, what to do next."""

from __future__ import annotations

from pathlib import Path

from rekindle.model.build import BuildFailure
from rekindle.model.journey import Journey, Leg
from rekindle.model.spoken import spoken_seconds
from rekindle.render.card import show_card
from rekindle.render.screen import Screen, printable

_MARK = {"done": "ok", "kept": "ok", "failed": "fail", "skipped": "skip"}


def show_journey(journey: Journey, screen: Screen) -> None:
    screen.verdict("ok" if journey.arrived else "fail", journey.verdict)
    screen.section("The way")
    width = max((len(leg.name) for leg in journey.legs), default=0)
    longest = max((len(_time(leg)) for leg in journey.legs), default=0)
    for leg in journey.legs:
        screen.entry(f"{leg.name:<{width}}  {_time(leg):>{longest}} ", leg.detail, status=_MARK[leg.status])
    if journey.card is not None and journey.report is None:  # a dry run
        screen.section("What a yes brings")
        show_card(journey.card, screen)
    if journey.failure is not None:
        _failure(journey.failure, screen)
    if journey.report is None:
        return
    screen.section("Where everything lies")
    places = [
        ("workspace", journey.workspace),
        ("wheel", journey.wheel),
        *(("", one.wheel) for one in journey.beside),
        ("python", journey.python),
        ("report", journey.report),
        *(("keeps torch" if number == 0 else "", place) for number, place in enumerate(journey.keeps)),
    ]
    screen.rows([(name, _short(place, journey.workspace)) for name, place in places if place])
    if journey.next:
        screen.section("Next")
        for command in journey.next:
            screen.command(command)


def _failure(failure: BuildFailure, screen: Screen) -> None:
    """The first error, what it means, and where the rest stands."""
    if failure.error:
        screen.section("First error")
        for line in failure.error[:6]:
            screen.line("  " + printable(line))
    for match in failure.diagnosis.matches[:1]:
        screen.section(f"Cause ({match.confidence} confidence)")
        screen.paragraph(match.cause)
        for step in match.fix:
            screen.bullet(step)
    if failure.log:
        screen.section("The whole log")
        screen.line(f"  {printable(failure.log)}")
    screen.paragraph("When the cause is removed, the same command goes on: what was compiled is kept.")


def _time(leg: Leg) -> str:
    return "kept" if leg.status == "kept" else spoken_seconds(leg.seconds)


def _short(place: str, workspace: str) -> str:
    """Paths inside the workspace are told from there on."""
    path = Path(place)
    if place != workspace and path.is_relative_to(workspace):
        return str(Path("…") / path.relative_to(workspace))
    return place
