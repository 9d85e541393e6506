"""Which plans count as made here: the same ones after settings were sorted and after Rekindle learnt more."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from rekindle.host import made
from rekindle.host.made import plan_digest
from rekindle.model.document import decode, encode
from rekindle.model.plan import BuildRecipe, Plan, Reason

PLAN = Plan(
    answer="build",
    torch="1.13.1",
    arch_list=("3.5", "9.0"),
    because=(Reason(code="a", text="ü"),),
    build=BuildRecipe(source="x", env={"B": "1", "A": "2"}),
)


def test_a_plan_of_an_earlier_release_is_still_known() -> None:
    """The literal is the digest of this plan when the test was written: a new field with a default leaves it alone."""
    assert plan_digest(PLAN) == "5147e7b8a30e41f6af957bdf3c84fa6a69de4a2b2ffb5a11a2828e4db71216ed"


def test_order_of_settings_and_a_way_through_a_file_do_not_count() -> None:
    assert PLAN.build is not None
    turned = msgspec.structs.replace(PLAN.build, env={"A": "2", "B": "1"})
    assert plan_digest(msgspec.structs.replace(PLAN, build=turned)) == plan_digest(PLAN)
    assert plan_digest(decode(encode(PLAN), Plan, origin="a file")) == plan_digest(PLAN)


@pytest.mark.parametrize(
    "change",
    [{"torch": "1.13.0"}, {"arch_list": ("9.0", "3.5")}, {"project": "torchvision"}, {"because": ()}, {"build": None}],
)
def test_what_a_plan_says_counts(change: dict[str, object]) -> None:
    assert plan_digest(msgspec.structs.replace(PLAN, **change)) != plan_digest(PLAN)


def test_what_would_be_run_counts_to_its_depths() -> None:
    assert PLAN.build is not None
    for change in ({"env": {"A": "2"}}, {"env": {"A": "2", "B": "3"}}, {"patches": ("p",)}, {"source": "y"}):
        other = msgspec.structs.replace(PLAN.build, **change)
        assert plan_digest(msgspec.structs.replace(PLAN, build=other)) != plan_digest(PLAN), change


def test_a_plan_is_ours_once_it_was_marked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(made, "own_directories", lambda: (tmp_path / "data", tmp_path / "cache"))
    monkeypatch.setattr(made, "_marked_by_this_process", set())
    other = msgspec.structs.replace(PLAN, torch="2.0.0")
    assert made.was_made_here(PLAN) is False and made.was_made_here("0" * 64) is False
    made.mark_made(PLAN)
    made.mark_made("0" * 64)
    monkeypatch.setattr(made, "_marked_by_this_process", set())
    assert made.was_made_here(PLAN) is True and made.was_made_here(other) is False
    assert made.was_made_here("0" * 64) is True and made.was_made_here("1" * 64) is False


def test_what_this_process_made_is_ours_where_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(made, "own_directories", lambda: (tmp_path / "file", tmp_path / "file"))
    monkeypatch.setattr(made, "_marked_by_this_process", set())
    made.mark_made(PLAN)
    assert made.was_made_here(PLAN) is True
    monkeypatch.setattr(made, "_marked_by_this_process", set())
    assert made.was_made_here(PLAN) is False


@pytest.mark.parametrize(("before", "left"), [(3, 4), (4, 4)])
def test_of_many_marks_the_newest_are_kept(
    before: int, left: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(made, "own_directories", lambda: (tmp_path, tmp_path))
    monkeypatch.setattr(made, "_KEPT", 4)
    folder = tmp_path / "wheels"
    folder.mkdir()
    for number in range(before):
        (folder / f"{number:064x}").touch()
        os.utime(folder / f"{number:064x}", (number, number))
    made.mark_made("f" * 64)
    assert len(list(folder.iterdir())) == left and (folder / ("f" * 64)).exists()
    assert (folder / f"{0:064x}").exists() is (before == 3)
