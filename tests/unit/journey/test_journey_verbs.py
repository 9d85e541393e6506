"""The verbs of the library: options by value or by name, a wish first, and ``bring_torch`` that never asks."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.api import adopt, bring_torch, demo, up
from rekindle.errors import BadInput, Declined
from rekindle.model.adopt import AdoptOptions
from rekindle.model.journey import Journey, UpOptions
from rekindle.model.plan import Plan, Wish


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """What ``up`` was asked; it shows the plan for a yes and then arrives."""
    told: dict[str, Any] = {"plan": Plan(answer="install", torch="2.7.1")}

    def run_up(workspace: Any, options: UpOptions, progress: object, confirm: Any) -> Journey:
        told.update(options=options, workspace=workspace)
        if not confirm(told["plan"], lambda: None):
            raise Declined("nothing was done")
        keeps = (str(tmp_path / "constraints.txt"), str(tmp_path / "pyproject.toml"))
        next_lines = ("source /e/bin/activate", "python -c x")
        return Journey(
            goal="torch", arrived=True, verdict="it runs", workspace=str(tmp_path), plan=told["plan"],
            python="/e/bin/python", keeps=keeps, next=next_lines, report="/r.html",
        )  # fmt: skip

    monkeypatch.setattr("rekindle.journey.up.run_up", run_up)
    return told


def test_a_wish_may_come_first_and_choices_by_their_names(asked: dict[str, Any], tmp_path: Path) -> None:
    up(Wish(torch="2.6"), workspace=tmp_path, gpu=["sm_61"], find_links=["a"], jobs=2)
    options = asked["options"]
    assert (options.wish.torch, options.gpu, options.find_links, options.jobs) == ("2.6", ("sm_61",), ("a",), 2)
    assert asked["workspace"].root == tmp_path
    up(UpOptions(torch_only=True, workspace=tmp_path), wish=None)
    assert asked["options"].torch_only and asked["options"].wish == Wish()
    up(UpOptions(wish=Wish(torch="2.5"), workspace=tmp_path), wish=Wish(torch="2.6"))
    assert asked["options"].wish.torch == "2.6"


def test_without_a_question_the_answer_is_yes_and_a_no_is_a_no(asked: dict[str, Any], tmp_path: Path) -> None:
    assert up(workspace=tmp_path).arrived
    with pytest.raises(Declined):
        up(workspace=tmp_path, confirm=lambda *_: False)


def test_what_was_brought_is_told_in_a_small_document(asked: dict[str, Any], tmp_path: Path) -> None:
    ready = bring_torch(tmp_path / "env", workspace=tmp_path)
    assert ready.ready and (ready.torch, ready.python, ready.report) == ("2.7.1", "/e/bin/python", "/r.html")
    assert ready.activate == "source /e/bin/activate" and ready.constraints == str(tmp_path / "constraints.txt")
    assert asked["options"].venv == tmp_path / "env"


@pytest.mark.parametrize(("answer", "word"), [("build", "built"), ("graft", "grafted")])
def test_hours_of_compiling_need_leave(answer: str, word: str, asked: dict[str, Any], tmp_path: Path) -> None:
    asked["plan"] = Plan(answer=answer, torch="2.7.1")  # type: ignore[arg-type]
    refused = bring_torch(workspace=tmp_path)
    assert not refused.ready and word in refused.verdict and "not allowed" in refused.verdict
    assert bring_torch(workspace=tmp_path, allow_build=True).ready


def test_other_bad_input_is_not_taken_for_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run_up(*_: object) -> Journey:
        raise BadInput("no such Python")

    monkeypatch.setattr("rekindle.journey.up.run_up", run_up)
    with pytest.raises(BadInput, match="no such Python"):
        bring_torch(workspace=tmp_path)


def test_adopt_takes_a_folder_or_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[tuple[AdoptOptions, bool]] = []

    def begin(options: AdoptOptions, progress: object, confirm: Any) -> Any:
        told.append((options, confirm(None)))
        return SimpleNamespace(run=lambda: None, undo=lambda: None)

    monkeypatch.setattr("rekindle.journey.adopt._begin", begin)
    adopt(tmp_path, leave_out=["x"], undo=True)
    adopt(AdoptOptions(folder=tmp_path), confirm=lambda _: False)
    assert told[0] == (AdoptOptions(folder=tmp_path, leave_out=("x",), undo=True), True)
    assert told[1] == (AdoptOptions(folder=tmp_path), False)


def test_the_demo_has_a_workspace_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: dict[str, Any] = {}

    def walk(place: Any, cmake: str | None, use_cuda: bool, progress: object) -> Journey:
        told.update(place=place, cmake=cmake, use_cuda=use_cuda)
        return Journey(goal="spark", arrived=True, verdict="", workspace="")

    monkeypatch.setattr("rekindle.journey.demo._walk", walk)
    (tmp_path / "wheels").mkdir()
    demo(workspace=tmp_path, use_cuda=False)
    assert (told["place"].root, told["use_cuda"], told["cmake"]) == (tmp_path, False, None)
    assert (tmp_path / "wheels").is_dir(), "nothing is forgotten unless that was said"
    demo(workspace=tmp_path)
    assert told["use_cuda"] is True
