"""The table's steps, with a planner that answers by the driver alone; and what the whole table says of itself."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from rekindle import __version__, api
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.progress import Silent

tables: Any = importlib.import_module("rekindle.api.table")


@pytest.mark.parametrize(
    ("answers", "steps"),
    [
        ({"": 0, "400": 1, "500": 1, "600": 2}, [("", 0), ("400", 1), ("600", 2)]),
        ({"": 0, "400": 0, "500": 0, "600": 2}, [("", 0), ("400", 0), ("600", 2)]),
        ({"": 0, "400": 1, "500": 0}, [("", 0), ("400", 1), ("500", 0)]),
        ({"": 3}, [("", 3)]),
    ],
)
def test_a_driver_is_told_where_the_answer_is_another_and_the_first_always(
    answers: dict[str, int], steps: list[tuple[str, int]]
) -> None:
    assert list(tables._steps(answers.__getitem__, [driver for driver in answers if driver])) == steps


class Listener(Silent):
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.told.append((name, detail))

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.told.append((done, total, detail))


def test_the_table_says_of_what_it_is_made_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, str, str]] = []

    def place_of(self: object, card: str, system: str, python: str, driver: str) -> int:
        asked.append((card, system, python, driver))
        return 0

    monkeypatch.setattr(tables._AnswerList, "place_of", place_of)
    listener = Listener()
    made = api.decision_table(cards=["gfx1100", "none"], pythons=["3.11", "3.12"], progress=listener)
    assert listener.told == [("table", "2 kinds of cards"), (0, 2, "gfx1100"), (1, 2, "none")]
    systems = ("linux_x86_64", "linux_aarch64", "windows")
    cells = [
        (card, system, python) for card in ("gfx1100", "none") for system in systems for python in ("3.11", "3.12")
    ]
    assert asked == [(*cell, "") for cell in cells]
    assert (made.rekindle, made.systems, made.pythons) == (__version__, systems, ("3.11", "3.12"))
    assert made.facts == max(row.date for row in load_facts().wheels.flavour)
    assert {name for ids in made.devices.values() for name in ids.values()} == {"gfx1100"}
    del asked[:]
    whole = api.decision_table(pythons=["3.12"])
    assert list(whole.rules)[-1] == "none" and list(whole.rules)[:-1] == sorted(list(whole.rules)[:-1])
    assert {"sm_35", "sm_61", "gfx1031"} <= set(whole.rules)
    assert {card for card, *_, driver in asked if driver} <= {card for card in whole.rules if card.startswith("sm_")}
    assert any(driver for *_, driver in asked)
    with pytest.raises(BadInput, match="is sm_99") as refused:
        api.decision_table(cards=["sm_61", "sm_99", "sm_98"])
    assert (refused.value.remedy or "").startswith("known are ") and "sm_61" in (refused.value.remedy or "")


def test_pythons_are_those_of_any_release_from_2_8_on() -> None:
    facts = load_facts()
    newer = [row for name, row in facts.torch.release.items() if tuple(map(int, name.split(".")[:2])) >= (2, 8)]
    named = {python for row in newer for python in row.pythons.get("linux_x86_64", ()) if not python.endswith("t")}
    assert set(api.decision_table(cards=[]).pythons) == named
