"""The table for installers in other languages: each row is the planner's own answer, each answer stands once."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from rekindle.api import decision_table as decision_table_of
from rekindle.api import export_table, machine_from_flags, plan
from rekindle.errors import BadInput
from rekindle.model.plan import Wish, pip_arguments
from rekindle.model.words import DecisionTable, TableAnswer


@pytest.fixture(scope="module")
def table() -> DecisionTable:
    return decision_table_of(cards=["sm_61", "sm_35", "gfx1100", "none"], pythons=["3.12"])


def answers(table: DecisionTable, card: str, system: str = "linux_x86_64") -> dict[str, TableAnswer]:
    """By the driver from which on each holds."""
    return {driver: table.answers[place] for driver, place in table.rules[card][system]["3.12"]}


def test_a_row_is_the_planners_answer(table: DecisionTable) -> None:
    for card in ("sm_61", "gfx1100", "none"):
        made = plan(machine_from_flags(gpu=[card], os="linux", arch="x86_64"), Wish(python="3.12"), wheelhouses=())
        row = answers(table, card)[""]
        assert (row.answer, row.torch, row.variant, row.env) == (made.answer, made.torch, made.variant, made.env)
        assert row.pip == pip_arguments(made.requests) and row.pip and row.cpu == ()
        told = [(table.warnings[place].code, table.warnings[place].text) for place in row.warnings]
        assert told == [(warning.code, warning.text) for warning in made.warnings if not warning.handled]


def test_without_a_wheel_for_the_card_the_row_names_the_cpus(table: DecisionTable) -> None:
    row = answers(table, "sm_35", "windows")[""]
    assert row.answer == "build" and row.pip == () and row.cpu[0][0].startswith("torch==")


def test_a_driver_stands_where_the_answer_changes_and_once_at_least(table: DecisionTable) -> None:
    for system in table.systems:
        steps = table.rules["sm_61"][system]["3.12"]
        assert steps[0][0] == "" and len(steps) > 1
        assert all(before[1] != after[1] for before, after in itertools.pairwise(steps[1:]))
        assert [driver for driver, _ in table.rules["gfx1100"][system]["3.12"]] == [""]


def test_equal_answers_stand_once_and_every_one_is_used(table: DecisionTable) -> None:
    rows = [repr(row) for row in table.answers]
    used = {
        place
        for by in table.rules.values()
        for pythons in by.values()
        for each in pythons.values()
        for _, place in each
    }
    assert len(set(rows)) == len(rows) and used == set(range(len(rows)))
    assert len({(warning.code, warning.text) for warning in table.warnings}) == len(table.warnings)


def test_devices_are_those_of_the_cards_that_were_chosen(table: DecisionTable) -> None:
    names = {name for ids in table.devices.values() for name in ids.values()}
    assert names == {"sm_61", "sm_35", "gfx1100"}


def test_a_card_of_no_table_is_refused() -> None:
    with pytest.raises(BadInput, match="no card of the tables is sm_99"):
        decision_table_of(cards=["sm_99"], pythons=["3.12"])


def test_the_pythons_are_those_with_wheels_of_the_newer_releases() -> None:
    pythons = decision_table_of(cards=[]).pythons
    assert pythons[0] == "3.9" and "3.12" in pythons and not any(python.endswith("t") for python in pythons)
    assert list(pythons) == sorted(pythons, key=lambda python: int(python.split(".")[1]))


def test_a_folder_gets_the_schema_and_the_reader_beside_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: DecisionTable
) -> None:
    monkeypatch.setattr(sys.modules["rekindle.api.table"], "decision_table", lambda progress=None: table)
    written = export_table(tmp_path)
    assert written.path == str(tmp_path / "torch-table.json")
    assert {Path(path).name for path in written.beside} == {"torch-table.schema.json", "choose_torch.js"}
    assert {path.name for path in tmp_path.iterdir()} == {Path(path).name for path in (written.path, *written.beside)}
    assert "DecisionTable" in (tmp_path / "torch-table.schema.json").read_text("utf-8")
    alone = export_table(tmp_path / "mine.json")
    assert alone.path == str(tmp_path / "mine.json") and alone.beside == ()
    assert Path(alone.path).read_text("utf-8") == alone.text == export_table().text
    assert export_table().path is None
