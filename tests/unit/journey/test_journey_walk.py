"""A walk keeps what it made, and makes again what changed or broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import StageFailed
from rekindle.host.workspace import Workspace
from rekindle.journey.walk import Walk, digest
from rekindle.model.plan import Plan
from rekindle.model.progress import Silent


def walk_once(root: Path, inputs: str, made: list[str]) -> Walk:
    walk = Walk(Workspace(root), Silent())

    def make() -> Plan:
        made.append(inputs)
        return Plan(answer="none", torch=inputs)

    plan = walk.kept_leg("plan", "planning", Plan, digest(inputs), make)
    assert plan.torch == inputs
    return walk


def test_the_second_walk_keeps_and_a_changed_input_does_not(tmp_path: Path) -> None:
    made: list[str] = []
    assert walk_once(tmp_path, "2.6.0", made).legs[0].status == "done"
    assert walk_once(tmp_path, "2.6.0", made).legs[0].status == "kept"
    assert walk_once(tmp_path, "2.7.0", made).legs[0].status == "done"
    assert made == ["2.6.0", "2.7.0"]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"schema": 1, "answer": "maybe"}'])
def test_a_damaged_document_is_made_again(tmp_path: Path, damage: bytes) -> None:
    made: list[str] = []
    walk_once(tmp_path, "2.6.0", made)
    (tmp_path / "reports" / "plan.json").write_bytes(damage)
    walk_once(tmp_path, "2.6.0", made)
    assert made == ["2.6.0", "2.6.0"]


def test_a_kill_between_document_and_key_repeats_the_leg(tmp_path: Path) -> None:
    made: list[str] = []
    walk_once(tmp_path, "2.6.0", made)
    (tmp_path / "reports" / "plan.key").unlink()
    walk_once(tmp_path, "2.6.0", made)
    assert made == ["2.6.0", "2.6.0"]


def test_a_failed_leg_is_told_and_raised(tmp_path: Path) -> None:
    walk = Walk(Workspace(tmp_path), Silent())

    def fail() -> Plan:
        raise StageFailed("the compiler said no")

    with pytest.raises(StageFailed):
        walk.leg("build", "building", fail, lambda _: "")
    assert (walk.legs[0].status, walk.legs[0].detail) == ("failed", "the compiler said no")
