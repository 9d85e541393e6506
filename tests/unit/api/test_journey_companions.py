"""Companions of a built torch: built where they can be, told and left out where not; the torch stays good."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle.api.journey import companions
from rekindle.api.journey.options import UpOptions
from rekindle.api.journey.walk import Walk
from rekindle.errors import BadInput, Interrupted
from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.plan import BuildRecipe, Plan, Wish
from rekindle.model.progress import Silent
from rekindle.model.source import SourceTree

MADE: dict[str, Any] = {"plan_digest": "p", "log": "log", "report": "report"}


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    fetched: list[dict[str, Any]] = []

    def fetch(**wanted: Any) -> SourceTree:
        fetched.append(wanted)
        return SourceTree(project=wanted["project"], version=wanted["release"], root=str(tmp_path), digest="d")

    def build(plan: Plan, tree: SourceTree, *_args: Any, **_more: Any) -> BuildResult:
        wheel = tmp_path / f"{tree.project}.whl"
        wheel.write_text(tree.project)
        return BuildResult(project=tree.project, wheel=str(wheel), wheel_sha256=sha256_of(wheel), plan=plan, **MADE)

    monkeypatch.setattr(companions, "source_fetch", fetch)
    monkeypatch.setattr(companions, "build_one", build)
    return {"fetched": fetched, "monkeypatch": monkeypatch}


def walk_it(tmp_path: Path, origin: str = "debian", torch: str = "2.6.0") -> tuple[list[str], list[str]]:
    workspace = Workspace(tmp_path / "ws")
    heard = Heard()
    wheel = tmp_path / "torch.whl"
    wheel.write_text("torch")
    plan = Plan(answer="build", torch=torch, build=BuildRecipe(source="x", origin=origin))
    options = UpOptions(wish=Wish(), bundle=False)
    found = companions.build_companions(Walk(workspace, Silent()), workspace, plan, "python", wheel, options, heard)
    return [one.name for one in found if one.wheel], heard.notes


def test_both_come_from_where_torch_came_from(tmp_path: Path, room: dict[str, Any]) -> None:
    names, notes = walk_it(tmp_path)
    assert (names, notes) == (["torchvision", "torchaudio"], [])
    assert [(one["release"], one["place"]) for one in room["fetched"]] == [("0.21.0", "debian"), ("2.6.0", "debian")]


def test_one_that_cannot_be_had_does_not_take_the_others_down(tmp_path: Path, room: dict[str, Any]) -> None:
    kept: Callable[..., SourceTree] = vars(companions)["source_fetch"]

    def fetch(**wanted: Any) -> SourceTree:
        if wanted["project"] == "torchvision":
            raise BadInput("Debian has no torchvision 0.21.0 that we know of")
        return kept(**wanted)

    room["monkeypatch"].setattr(companions, "source_fetch", fetch)
    names, notes = walk_it(tmp_path)
    assert names == ["torchaudio"]
    assert notes == ["torchvision 0.21.0 is not built: Debian has no torchvision 0.21.0 that we know of"]


def test_one_that_fails_is_told(tmp_path: Path, room: dict[str, Any]) -> None:
    def fail(*_args: Any, **_more: Any) -> BuildFailure:
        return BuildFailure(project="x", phase="compile", message="no such header", log="log")

    room["monkeypatch"].setattr(companions, "build_one", fail)
    names, notes = walk_it(tmp_path)
    assert names == []
    assert notes == [
        "torchvision 0.21.0 is not built: no such header", "torchaudio 2.6.0 is not built: no such header",
    ]  # fmt: skip


def test_no_network_for_a_companion_leaves_the_torch_and_says_how_to_go_on(
    tmp_path: Path, room: dict[str, Any]
) -> None:
    def cut(**_wanted: Any) -> SourceTree:
        raise Interrupted("no such host")

    room["monkeypatch"].setattr(companions, "source_fetch", cut)
    names, notes = walk_it(tmp_path)
    assert names == []
    assert notes[0] == "torchvision 0.21.0 is not built: no such host; the same command tries it again"


def test_a_build_cut_short_is_not_swallowed(tmp_path: Path, room: dict[str, Any]) -> None:
    def cut(*_args: Any, **_more: Any) -> BuildResult:
        raise Interrupted("cut")

    room["monkeypatch"].setattr(companions, "build_one", cut)
    with pytest.raises(Interrupted):
        walk_it(tmp_path)


@pytest.mark.parametrize(
    ("origin", "torch", "words"), [("/tree", "2.6.0", "a tree of your own"), ("git", "9.9.9", "not known")]
)
def test_without_a_place_or_a_pair_nothing_is_guessed(
    tmp_path: Path, room: dict[str, Any], origin: str, torch: str, words: str
) -> None:
    names, notes = walk_it(tmp_path, origin, torch)
    assert (names, room["fetched"]) == ([], [])
    assert words in notes[0]
