"""A walk for people: verdict, the legs, where everything lies, what to do next."""

from __future__ import annotations

from pathlib import Path

from rekindle.model.journey import Journey, Leg
from rekindle.render.screen import Screen

_MARK = {"done": "ok", "kept": "ok", "failed": "fail", "skipped": "skip"}


def show_journey(journey: Journey, screen: Screen) -> None:
    screen.verdict("ok" if journey.arrived else "fail", journey.verdict)
    screen.section("The way")
    width = max((len(leg.name) for leg in journey.legs), default=0)
    for leg in journey.legs:
        screen.entry(f"{leg.name:<{width}}  {_time(leg)} ", leg.detail, status=_MARK[leg.status])
    screen.section("Where everything lies")
    places = [
        ("workspace", journey.workspace),
        ("wheel", journey.wheel),
        ("python", journey.python),
        ("report", journey.report),
    ]
    screen.rows([(name, _short(place, journey.workspace)) for name, place in places if place])
    if journey.next:
        screen.section("Next")
        for command in journey.next:
            screen.command(command)


def _time(leg: Leg) -> str:
    return "   kept" if leg.status == "kept" else f"{leg.seconds:5.1f} s"


def _short(place: str, workspace: str) -> str:
    """Paths inside the workspace are told from there on."""
    path = Path(place)
    if place != workspace and path.is_relative_to(workspace):
        return str(Path("…") / path.relative_to(workspace))
    return place
