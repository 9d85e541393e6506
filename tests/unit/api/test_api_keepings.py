"""``list`` and ``clean``: in which order what is kept is told, and what goes by age, kind or place."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput, Declined
from rekindle.model.holdings import Holding

keepings: Any = importlib.import_module("rekindle.api.keepings")
DAY = 86400


def holding(kind: Any, path: Path, workspace: Path | None = None, age: float = 0.0) -> Holding:
    path.mkdir(parents=True, exist_ok=True)
    place = str(workspace) if workspace else None
    return Holding(kind=kind, name=path.name, path=str(path), bytes=1, age_seconds=age, workspace=place)


@pytest.fixture
def removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two workspaces with their parts, and a cache of its own; what is removed is only noted."""
    first, second = tmp_path / "a", tmp_path / "b"
    found = [
        holding("logs", second / "logs", second, 5 * DAY),
        holding("build", first / "build", first, DAY),
        holding("workspace", second, age=DAY - 1),
        holding("source", first / "source", first),
        holding("workspace", first),
        holding("cache", tmp_path / "ab", age=DAY + 1),
    ]
    monkeypatch.setattr(keepings, "find_holdings", lambda: iter(found))
    gone: list[str] = []

    def remove(one: Holding) -> str | None:
        gone.append(Path(one.path).relative_to(tmp_path).as_posix())
        return "in use" if one.kind == "logs" else None

    monkeypatch.setattr(keepings, "remove", remove)
    return gone


def names(items: tuple[Holding, ...], root: Path) -> list[str]:
    return [Path(item.path).relative_to(root).as_posix() for item in items]


def test_a_workspace_is_told_before_its_parts_and_beside_them(removed: list[str], tmp_path: Path) -> None:
    kept = api.holdings()
    assert names(kept.items, tmp_path) == ["a", "a/build", "a/source", "ab", "b", "b/logs"]
    assert len(kept.places) == 2


def test_a_day_is_a_day_old(removed: list[str], tmp_path: Path) -> None:
    def old(days: float) -> list[str]:
        return names(api.clean(everything=True, older_than_days=days, dry_run=True).removed, tmp_path)

    assert old(1) == ["a/build", "ab", "b/logs"] and old(1.00001) == ["ab", "b/logs"]
    assert old(5) == ["b/logs"] and old(6) == [] and len(old(0)) == 6


def test_what_can_be_made_again_goes_by_itself_the_innermost_first(removed: list[str], tmp_path: Path) -> None:
    done = api.clean()
    assert sorted(removed) == ["a/build", "ab", "b/logs"] and removed[-1] == "ab"
    assert sorted(names(done.removed, tmp_path)) == ["a/build", "ab"] and not done.dry_run
    assert [(Path(one.path).name, one.why) for one in done.kept] == [("logs", "in use")]
    removed.clear()
    api.clean([str(tmp_path / "a")])
    assert removed == ["a/source", "a/build", "a"], "a workspace that is named goes with its parts"


def test_what_went_with_its_workspace_is_gone(removed: list[str], tmp_path: Path) -> None:
    (tmp_path / "a" / "build").rmdir()
    assert names(api.clean(["build"]).removed, tmp_path) == ["a/build"] and removed == []


def test_kinds_and_places_are_named_side_by_side_and_each_thing_goes_once(removed: list[str], tmp_path: Path) -> None:
    words = ["source", str(tmp_path / "a" / "source"), "cache", "wheelhouse"]
    assert names(api.clean(words, dry_run=True).removed, tmp_path) == ["a/source", "ab"]
    with pytest.raises(BadInput, match="leaves nothing to name"):
        api.clean(["logs"], everything=True)
    with pytest.raises(BadInput, match="nonsense is not among"):
        api.clean(["nonsense"])


def test_who_is_asked_sees_what_would_go_and_is_not_asked_about_nothing(removed: list[str], tmp_path: Path) -> None:
    shown: list[list[str]] = []

    def answer(items: Any) -> bool:
        shown.append(names(items, tmp_path))
        return len(shown) > 1

    with pytest.raises(Declined):
        api.clean(["logs"], confirm=answer)
    assert removed == [] and shown == [["b/logs"]]
    api.clean(["logs"], confirm=answer)
    assert removed == ["b/logs"]
    api.clean(["logs"], confirm=answer, dry_run=True)
    api.clean(["logs"], confirm=answer, older_than_days=99)
    assert len(shown) == 2
