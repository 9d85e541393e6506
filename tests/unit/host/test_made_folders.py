"""What we made bears our mark; what was there before never does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import needs
from rekindle.host import made
from rekindle.host.workspace import Workspace


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    data, cache = tmp_path / "data/rekindle", tmp_path / "cache/rekindle"
    monkeypatch.setattr(made, "own_directories", lambda: (data, cache))
    return data


def test_a_new_workspace_is_ours_and_on_the_list(tmp_path: Path) -> None:
    root = tmp_path / "Werk Bänk"
    with Workspace(root).lock("test"):
        pass
    assert made.is_ours(root)
    assert list(made.noted_folders()) == [("workspace", root)]
    made.forget(root)
    assert list(made.noted_folders()) == []


def test_a_folder_that_held_something_is_not(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    root.mkdir()
    (root / "thesis.txt").write_text("years of work")
    with Workspace(root).lock("test"):
        pass
    assert not made.is_ours(root) and list(made.noted_folders()) == []


def test_our_own_directories_are_ours_but_not_the_root_itself(home: Path, tmp_path: Path) -> None:
    assert made.is_ours(home / "default") and not made.is_ours(home)
    assert not made.is_ours(tmp_path / "data") and not made.is_ours(tmp_path / "data/rekindle-2/x")


@needs.links()
def test_a_link_out_of_our_directories_is_not_ours(home: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    home.mkdir(parents=True)
    (home / "link").symlink_to(outside)
    assert not made.is_ours(home / "link")


def test_a_damaged_list_costs_only_its_entry(tmp_path: Path) -> None:
    made.note_made("environment", tmp_path / "env")
    (made.list_folder() / "bad.json").write_text("{")
    (made.list_folder() / "odd.json").write_text("[]")
    assert [kind for kind, _ in made.noted_folders()] == ["environment"]


def test_a_list_of_places_that_cannot_be_read_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pattern: str) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(made, "list_folder", lambda: SimpleNamespace(glob=refuse))
    assert list(made.noted_folders()) == []
