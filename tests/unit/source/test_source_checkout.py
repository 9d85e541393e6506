"""A checkout with submodules: what is fetched again, what stays because somebody worked there, what git says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import BadInput, Interrupted
from rekindle.host.git import Git
from rekindle.model.progress import Silent
from rekindle.source import checkout
from rekindle.source.checkout import Mirror, _has_edits, _insist, _is_half, _run, _top, check_place


class Heard(Silent):
    def __init__(self) -> None:
        self.steps: list[tuple[float, float | None, str]] = []

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.steps.append((done, total, detail))


def saying(monkeypatch: pytest.MonkeyPatch, *lines: str, code: int = 0) -> list[dict[str, Any]]:
    """Git's long commands print these lines; what they were called with."""
    calls: list[dict[str, Any]] = []

    def run_long(argv: list[str], *, cwd: Path, env: dict[str, str], on_line: Callable[[str], None]) -> int:
        calls.append({"argv": argv, "env": env})
        for line in lines:
            on_line(line)
        return code

    monkeypatch.setattr(checkout, "run_long", run_long)
    monkeypatch.setattr("rekindle.source.checkout.time.sleep", lambda seconds: None)
    return calls


def test_the_error_is_what_is_told_not_what_came_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = Git(tmp_path)
    saying(monkeypatch, "a", "fatal: no such host", "hint: b", "hint: c", "", code=128)
    assert _run(git, ["fetch"], (), Heard()) == (False, "fatal: no such host")
    saying(monkeypatch, "only words", code=1)
    assert _run(git, ["fetch"], (), Heard()) == (False, "only words")
    saying(monkeypatch, code=9)
    assert _run(git, ["fetch"], (), Heard()) == (False, "exit code 9")


def test_an_error_long_before_the_end_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saying(monkeypatch, "error: early", *"abcd", code=1)
    assert _run(Git(tmp_path), ["fetch"], (), Heard())[1] == "d"


def test_progress_counts_submodules_and_git_s_own_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    lines = [f"Submodule path 'third_party/{name}': checked out 'abc'" for name in "ab"]
    saying(monkeypatch, *lines, "remote: Counting objects:  50% (5/10), 1.5 MiB | 2.0 MiB/s")
    _run(Git(tmp_path), ["submodule"], (), heard, total=1)
    assert heard.steps == [
        (1, 1, "third_party/a"),
        (1, 1, "third_party/b"),
        (5.0, 10.0, "Counting objects 1.5 MiB, 2.0 MiB/s"),
    ]


def settings(env: dict[str, str]) -> dict[str, str]:
    count = int(env["GIT_CONFIG_COUNT"])
    return {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}


@pytest.mark.parametrize(
    ("instead", "local"),
    [("file:///srv/", True), ("/srv/", True), ("../srv", True), ("https://mirror.invalid/", False)],
)
def test_only_a_mirror_on_this_machine_opens_local_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: str, local: bool
) -> None:
    calls = saying(monkeypatch)
    _run(Git(tmp_path), ["fetch"], [Mirror("https://github.com/", instead)], Heard())
    told = settings(calls[0]["env"])
    assert told[f"url.{instead}.insteadOf"] == "https://github.com/"
    assert told["protocol.file.allow"] == ("always" if local else "user")


def test_a_fetch_is_tried_again_unless_the_revision_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = saying(monkeypatch, "fatal: early EOF", code=1)
    with pytest.raises(Interrupted, match="early EOF"):
        _insist(Git(tmp_path), ["fetch", "v1"], (), Heard())
    assert len(calls) == checkout.ATTEMPTS == 3
    for words in ("fatal: couldn't find remote ref refs/tags/v9", "error: upload-pack: not our ref abc"):
        calls = saying(monkeypatch, words, code=1)
        with pytest.raises(BadInput, match=r"^refs/tags/v9 is not in that repository"):
            _insist(Git(tmp_path), ["fetch", "+refs/tags/v9:refs/tags/v9"], (), Heard())
        assert len(calls) == 1
    calls = saying(monkeypatch)
    _insist(Git(tmp_path), ["fetch", "v1"], (), Heard())
    assert len(calls) == 1


def test_a_nested_submodule_belongs_to_the_one_it_lies_in() -> None:
    named = ["third_party/a", "third_party/ab"]
    assert _top("third_party/a", named) == _top("third_party/a/deep (empty)", named) == "third_party/a"
    assert _top("third_party/ab/x", named) == "third_party/ab"
    assert _top("elsewhere (missing)", named) == "elsewhere"


def test_work_in_a_submodule_is_told_from_what_a_kill_left(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(tmp_path / "part"), *who, *words], check=True, capture_output=True)

    part = tmp_path / "part"
    part.mkdir()
    assert not _is_half(tmp_path, "part") and not _has_edits(tmp_path, "part"), "nothing was begun"
    git("init", "-q")
    assert _is_half(tmp_path, "part") and not _has_edits(tmp_path, "part"), "no commit came yet"
    for name in ("a", "b"):
        (part / name).write_text(name)
    git("add", "-A")
    git("commit", "-qm", "x")
    assert not _is_half(tmp_path, "part") and not _has_edits(tmp_path, "part")
    (part / "a").unlink()
    assert not _has_edits(tmp_path, "part"), "a file that is not written yet is nobody's work"
    (part / "b").write_text("mine")
    assert _has_edits(tmp_path, "part")


def test_a_submodule_that_never_began_is_an_empty_folder_to_git(tmp_path: Path) -> None:
    checkout._forget(tmp_path, "third_party/a")
    assert list((tmp_path / "third_party/a").iterdir()) == []


def test_a_place_near_the_limit_of_windows(tmp_path: Path) -> None:
    room = 260 - 150 - len(str(tmp_path.resolve())) - 1
    assert check_place(tmp_path / ("x" * room), windows=True) == []
    assert len(check_place(tmp_path / ("x" * (room + 1)), windows=True)) == 1
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="not a directory"):
        check_place(tmp_path / "file", windows=False)
