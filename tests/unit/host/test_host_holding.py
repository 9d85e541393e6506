"""Locks and marks: held by one, told to the other; kept private, and not without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.errors import WorkspaceBusy
from rekindle.host import made, workspace
from rekindle.host.files import hold_lock
from rekindle.host.redact import all_without_secrets, without_secrets
from rekindle.host.workspace import Workspace, remove
from rekindle.model.holdings import Holding


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(made, "own_directories", lambda: (tmp_path / "data", tmp_path / "cache"))
    return tmp_path / "data"


def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    with (
        hold_lock(tmp_path / "lock", str),
        pytest.raises(WorkspaceBusy, match="taken") as caught,
        hold_lock(tmp_path / "lock", lambda: "taken", "wait"),
    ):
        pass
    assert caught.value.remedy == "wait"
    with pytest.raises(ValueError, match="no"), hold_lock(tmp_path / "lock", str):
        raise ValueError("no")
    with hold_lock(tmp_path / "lock", lambda: "taken"):
        pass


def test_marks_are_private_and_the_oldest_go(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made._KEPT == 5000
    monkeypatch.setattr(made, "_KEPT", 2)
    for age, name in enumerate(("a", "b")):
        made.mark_wheel_made(name)
        os.utime(data / "wheels" / name, (age, age))
    assert sorted(path.name for path in (data / "wheels").iterdir()) == ["a", "b"]
    made.mark_wheel_made("c")
    assert sorted(path.name for path in (data / "wheels").iterdir()) == ["b", "c"]
    assert made.wheel_was_made_here("a"), "what this process marked counts for it"
    if os.name == "posix":
        assert (data / "wheels").stat().st_mode & 0o777 == 0o700
    made.mark_wheel_made("d")
    monkeypatch.setattr(made, "_marked_by_this_process", set())
    assert made.wheel_was_made_here("d") and not made.wheel_was_made_here("a")


def test_a_long_list_of_folders_is_tidied(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "_TIDY_FROM", 2)
    for name in ("one", "two"):
        made.note_made("environment", tmp_path / name)
    (tmp_path / "one" / made.MARK).unlink()
    (tmp_path / "one").rmdir()
    assert len(list(made.noted())) == 2
    made.note_made("environment", tmp_path / "three")
    assert {note.path.name for note in made.noted()} == {"two", "three"}


def test_a_workspace_that_is_there_is_taken_and_a_new_one_marked(data: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "file").write_text("")
    for root in (old, tmp_path / "far" / "new"):
        with Workspace(root).lock("build"):
            assert (root / ".lock.holder").read_text() == f"process {os.getpid()} (build)\n"
        assert not (root / ".lock.holder").exists()
    assert not (old / made.MARK).exists() and (tmp_path / "far/new" / made.MARK).is_file()


def test_who_waits_is_told_for_whom(data: Path, tmp_path: Path) -> None:
    said: list[str] = []
    place = Workspace(tmp_path / "w")
    with place.lock("build"):
        with (
            pytest.raises(WorkspaceBusy, match=r"in use by process \d+"),
            place.lock("other", say=said.append),
        ):
            pass
        assert said == []
        with pytest.raises(WorkspaceBusy), place.lock("other", wait=0.1, say=said.append):
            pass
    assert said == [f"waiting for process {os.getpid()} (build) to let go of {place.root}"]


def test_a_holder_s_name_is_short_or_unknown(tmp_path: Path) -> None:
    (tmp_path / "holder").write_text("x" * 300)
    assert workspace._holder(tmp_path / "holder") == "x" * 200
    assert workspace._holder(tmp_path / "none") == "another process"


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
def test_nothing_is_removed_through_a_link(data: Path, tmp_path: Path) -> None:
    root = tmp_path / "real"
    made.note_made("workspace", root)
    (root / "logs").mkdir()
    link = tmp_path / "link"
    link.symlink_to(root)
    inside = root / "also"
    inside.symlink_to(root / "logs")

    def holding(path: Path, of: Path | None = None) -> Holding:
        told = str(of) if of else None
        return Holding(kind="logs", name="x", path=str(path), bytes=1, age_seconds=1, workspace=told)

    for held in (holding(link), holding(link / "logs", link), holding(inside, root)):
        assert remove(held) == "it is a link to another place"
    assert remove(holding(tmp_path / "real/../real/logs/../..", root)) == "it leads out of its workspace"
    assert remove(holding(root / "logs", root)) is None and not (root / "logs").exists()


def test_only_text_is_redacted_and_all_of_it() -> None:
    assert without_secrets(7) == 7 and without_secrets(None) is None
    assert without_secrets("sig https://me:pw@host/?token=abc") == "sig https://redacted@host/?token=redacted"
    assert all_without_secrets({"MY_TOKEN": "abc", "n": [1, "https://a:b@h"]}) == {
        "MY_TOKEN": "redacted",
        "n": [1, "https://redacted@h"],
    }
