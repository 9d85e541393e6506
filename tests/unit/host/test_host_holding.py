"""Locks and marks: held by one, told to the other; kept private, and not without end."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.host import made, workspace
from rekindle.host.files import hold_lock, is_git_name, is_reserved_name
from rekindle.host.live import LiveHost
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
        made.mark_made(name)
        os.utime(data / "wheels" / name, (age, age))
    assert sorted(path.name for path in (data / "wheels").iterdir()) == ["a", "b"]
    made.mark_made("c")
    assert sorted(path.name for path in (data / "wheels").iterdir()) == ["b", "c"]
    assert made.was_made_here("a"), "what this process marked counts for it"
    if os.name == "posix":
        assert (data / "wheels").stat().st_mode & 0o777 == 0o700
    made.mark_made("d")
    monkeypatch.setattr(made, "_marked_by_this_process", set())
    assert made.was_made_here("d") and not made.was_made_here("a")


def test_a_long_list_of_folders_is_tidied(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "_TIDY_FROM", 2)
    for name in ("one", "two"):
        made.note_made("environment", tmp_path / name)
    (tmp_path / "one" / made.MARK).unlink()
    (tmp_path / "one").rmdir()
    assert len(list(made.noted_folders())) == 2
    made.note_made("environment", tmp_path / "three")
    assert {path.name for _, path in made.noted_folders()} == {"two", "three"}


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


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "a\x1fb", "a\x7fb", "a\udc80b", "a\ud800b", "a\udfffb"])
def test_a_workspace_has_a_name_that_can_be_written_down(name: str) -> None:
    with pytest.raises(BadInput, match="letters that are no text"):
        Workspace(Path("/tmp") / name)


@pytest.mark.parametrize("name", ["a b", "ümlaut", "a\u200bb", "a\ue000b", "a\x80b"])
def test_any_other_name_will_do(name: str) -> None:
    assert Workspace(Path("/tmp") / name).plan == Path("/tmp") / name / "plan.json"


def test_logs_have_names_of_their_own(tmp_path: Path) -> None:
    place = Workspace(tmp_path / "w")
    for name in ("build", "graft"):
        log = place.new_log(name)
        assert log.parent.is_dir() and log.name.endswith(f"-{os.getpid()}-{name}.log")


def test_the_given_workspace_or_the_user_s_own() -> None:
    assert workspace.workspace_at(Path("here")).root == Path("here").absolute()
    assert workspace.workspace_at(None, "mine").root == made.own_directories()[0] / "mine"


def test_what_cannot_be_removed_whole_is_still_known_as_ours(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "w"
    with Workspace(root).lock("build"):
        (root / "logs").mkdir()
        (root / "plan.json").write_text("{}")
    left = []
    real = shutil.rmtree

    def look(path: Path, ignore_errors: bool = False) -> None:
        left.append({entry.name for entry in root.iterdir()})
        real(path, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", look)
    whole = next(held for held in workspace.find_holdings() if held.kind == "workspace" and held.path == str(root))
    assert workspace.remove(whole) is None
    assert left[0] >= {".lock", ".lock.holder", made.MARK, "logs"} and left[-1] == {".lock", made.MARK}
    assert not root.exists()


@pytest.mark.parametrize(
    ("name", "git", "reserved"),
    [
        (".git", True, False),
        (".GIT", True, False),
        ("git~1", True, False),
        (".git. ", True, True),
        (".g\u200cit", True, False),
        (".git:stream", True, False),
        (".gitignore", False, False),
        ("CON", False, True),
        ("nul.txt", False, True),
        ("com9", False, True),
        ("console", False, False),
        ("end.", False, True),
    ],
)
def test_names_that_git_or_windows_take_for_their_own(name: str, git: bool, reserved: bool) -> None:
    assert (is_git_name(name), is_reserved_name(name)) == (git, reserved)


def test_a_key_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[object, ...]] = []

    class Handle:
        def __enter__(self) -> Handle:
            return self

        def __exit__(self, *_: object) -> None: ...

    def open_key(*words: object) -> Handle:
        opened.append(words)
        if words[1] == "none":
            raise OSError
        return Handle()

    values = [("a", "text", 1), ("b", 7, 4), ("c", ["x", "y"], 7), ("d", b"raw", 3)]
    fake = SimpleNamespace(
        HKEY_LOCAL_MACHINE="lm",
        HKEY_CURRENT_USER="cu",
        KEY_READ=1,
        KEY_WOW64_64KEY=256,
        OpenKey=open_key,
        QueryInfoKey=lambda handle: (2, len(values), 0),
        EnumValue=lambda handle, number: values[number],
        EnumKey=lambda handle, number: ("one", "two")[number],
    )
    assert LiveHost().registry("HKLM\\X") is None or sys.platform == "win32"
    monkeypatch.setitem(sys.modules, "winreg", fake)
    monkeypatch.setattr(sys, "platform", "win32")
    found = LiveHost().registry("HKLM\\Software\\X")
    assert found is not None and found.values == {"a": "text", "b": 7, "c": "x\ny"} and found.keys == ("one", "two")
    assert opened == [("lm", "Software\\X", 0, 257)]
    assert LiveHost().registry("HKCU\\none") is None
