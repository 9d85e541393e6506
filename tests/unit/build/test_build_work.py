"""One command of a build: retried alone where compilers were killed for memory, told and counted; and a bare Ninja."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.build.failure import BuildLog
from rekindle.build.governor import Governor
from rekindle.build.history import History, ObjectCosts
from rekindle.build.work import MAX_RETRIES, Supervisor, Work, run_ninja, run_supervised
from rekindle.errors import BuildFailed, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.progress import JobView, Silent

KILLED = "print('FAILED: [code=137] a.o'); print('cc a.c'); print('Killed')"


@pytest.fixture
def log(tmp_path: Path) -> Any:
    with contextlib.closing(BuildLog(tmp_path / "logs" / "build.log")) as made:
        yield made


def script(tmp_path: Path, good_from: int, failing: str = KILLED) -> list[str]:
    """A command that fails until its ``good_from``-th run."""
    counter = tmp_path / "runs"
    code = (
        f"import pathlib,sys; p=pathlib.Path({str(counter)!r}); n=len(p.read_text())+1 if p.exists() else 1\n"
        f"p.write_text('x'*n); print(f'[1/{{n + 4}}] Building object a.o')\n"
        f"if n >= {good_from}: sys.exit(0)\n{failing}\nsys.exit(1)"
    )
    return [sys.executable, "-c", code]


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text())


class Alone(Supervisor):
    """Notes what it is told to run alone."""

    told: list[list[str]]

    def run_alone(self, outputs: list[str]) -> None:
        self.told.append(list(outputs))
        super().run_alone(outputs)


def supervised(tmp_path: Path, log: BuildLog, argv: list[str], watch: Any = str, **more: Any) -> Any:
    Alone.told = []
    env = dict(os.environ)
    alone = functools.partial(Alone, log, Silent(), "compile", watch=watch)
    return run_supervised(argv, tmp_path, env, log=log, supervise=alone, **more)


def test_what_was_killed_for_memory_is_made_again_alone(tmp_path: Path, log: BuildLog) -> None:
    again: list[list[str]] = []
    seen: list[str] = []
    code, steps = supervised(tmp_path, log, script(tmp_path, 3), on_retry=again.append, watch=seen.append)
    assert code == 0 and runs(tmp_path) == 3
    assert again == Alone.told == [["a.o"], ["a.o"]]
    assert steps == 7, "of the longest run"
    assert seen.count("Killed") == 2
    assert sum(line.startswith("$ cd ") for line in log.recent) == 3


def test_after_three_more_tries_it_is_given_up(tmp_path: Path, log: BuildLog) -> None:
    again: list[list[str]] = []
    code, _ = supervised(tmp_path, log, script(tmp_path, 99), on_retry=again.append)
    assert code == 1
    assert MAX_RETRIES == 3 and (runs(tmp_path), len(again)) == (4, 3)


def test_an_error_of_the_code_is_not_tried_again(tmp_path: Path, log: BuildLog) -> None:
    failing = "print('FAILED: [code=1] a.o'); print('cc a.c'); print('a.c:1: error: no')"
    code, _ = supervised(tmp_path, log, script(tmp_path, 99, failing))
    assert code == 1 and runs(tmp_path) == 1 and Alone.told == []


def test_what_the_governor_ended_counts_as_killed(tmp_path: Path, log: BuildLog) -> None:
    governor = Governor(None, ObjectCosts(History()), max_jobs=2)
    governor.killed.append("a.o")
    argv = script(tmp_path, 2, "print('FAILED: [code=1] a.o'); print('cc a.c')")
    code, _ = run_supervised(
        argv, tmp_path, dict(os.environ), log=log, supervise=lambda: Supervisor(log, Silent(), "x", governor=governor)
    )
    assert code == 0 and runs(tmp_path) == 2


def test_what_runs_alone_runs_until_it_is_made(log: BuildLog) -> None:
    governor = Governor(None, ObjectCosts(History()), max_jobs=2)
    supervisor = Supervisor(log, Silent(), "compile", governor=governor)
    supervisor.run_alone(["a.o", "b.o"])
    assert governor.solo
    supervisor.line("[1/3] Building object a.o")
    assert governor.solo and supervisor.alone == {"b.o"}
    supervisor.line("[2/3] Building object b.o")
    assert not governor.solo and (supervisor.done, supervisor.total) == (2, 3)


def work(tmp_path: Path, log: BuildLog) -> Work:
    parts: Any = {
        "plan": None,
        "tree": SimpleNamespace(project="torch"),
        "front": SimpleNamespace(root=tmp_path, build_tree=tmp_path, ninja_tree=tmp_path),
    }
    return Work(
        **parts,
        workspace=Workspace(tmp_path),
        options=BuildOptions(),
        progress=Silent(),
        host=LiveHost(),
        log=log,
        version="1",
    )


def test_a_build_tells_what_it_made_again(tmp_path: Path, log: BuildLog) -> None:
    made = work(tmp_path, log)
    made.run("compile", script(tmp_path, 2), dict(os.environ))
    assert made.retried == ["a.o"] and made.steps == 6
    assert made.notes == ["killed for memory: a.o; retrying alone"]
    assert f"rekindle: {made.notes[0]}" in log.recent
    made.steps = 99
    made.run("compile", script(tmp_path, 1), dict(os.environ))
    assert made.steps == 99, "the longest of all its commands"


def test_a_build_that_fails_says_the_phase_and_the_code(tmp_path: Path, log: BuildLog) -> None:
    with pytest.raises(BuildFailed, match=r"configure failed \(exit code 1\): RuntimeError: no") as caught:
        work(tmp_path, log).run("configure", script(tmp_path, 99, "print('Run' + 'timeError: no')"), dict(os.environ))
    assert caught.value.failure.project == "torch"  # type: ignore[attr-defined]


def test_a_phase_is_timed_however_it_ends(tmp_path: Path, log: BuildLog) -> None:
    made = work(tmp_path, log)
    with pytest.raises(ValueError, match="no"), made.phase("configure", "torch"):
        raise ValueError("no")
    assert [span.name for span in made.spans] == ["configure"] and "== configure torch" in log.recent


needs_posix = pytest.mark.skipif(os.name == "nt", reason="a shell script stands for Ninja")


def bare_ninja(tmp_path: Path, body: str) -> dict[str, str]:
    ninja = tmp_path / "ninja"
    ninja.write_text(f'#!/bin/sh\nif [ "$1" = --version ]; then echo 1.11.1; exit 0; fi\necho "$@" > words\n{body}\n')
    ninja.chmod(0o755)
    folder = tmp_path / "tree"
    folder.mkdir()
    # What is free on this machine now must not decide: with a budget three jobs fit.
    options = BuildOptions(ninja=str(ninja), jobs=3, memory="8G")
    return dict(run_ninja(folder, Workspace(tmp_path / "w"), options, Silent(), LiveHost(), {"MORE": "x"}))


@needs_posix
def test_a_bare_ninja_goes_on_after_failures_with_a_number_of_jobs(tmp_path: Path) -> None:
    assert bare_ninja(tmp_path, 'echo "$MORE $NINJA_STATUS"; [ "$MORE" = x ]') == {}
    assert (tmp_path / "tree/words").read_text().split() == ["-k", "0", "-j", "3"]
    assert (tmp_path / "w/cache/history-graft.json").is_file()


@needs_posix
def test_a_bare_ninja_tells_what_failed_and_why(tmp_path: Path) -> None:
    body = "echo 'FAILED: [code=1] a.o'; echo 'cc a.c'; echo ' first '; echo; echo second\n"
    body += "echo 'FAILED: [code=1] b.o'; echo 'cc b.c'; exit 1"
    assert bare_ninja(tmp_path, body) == {"a.o": "first second", "b.o": "its tool failed"}


@needs_posix
def test_a_bare_ninja_tells_the_beginning_of_what_a_tool_said(tmp_path: Path) -> None:
    body = "echo 'FAILED: [code=1] a.o'; echo 'cc a.c'; for n in $(seq 20); do echo $n; done\n"
    body += "echo 'FAILED: [code=1] b.o'; echo 'cc b.c'; printf '%03000d\\n' 7; exit 1"
    told = bare_ninja(tmp_path, body)
    assert told == {"a.o": "1 2 3 4 5 6 7 8 9 10 11 12", "b.o": "0" * 2000}


@needs_posix
def test_a_bare_ninja_that_fails_without_a_job_says_its_last_line(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match=r"Ninja ended with exit code 5: ninja: error: loading"):
        bare_ninja(tmp_path, "echo 'ninja: error: loading'; echo; exit 5")


def test_only_what_runs_is_left_at_the_end(log: BuildLog, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    asked: list[dict[str, Any]] = []
    estimate: Any = SimpleNamespace(
        left=lambda **told: asked.append(told) or 50.0,  # type: ignore[func-returns-value]
        seconds=lambda output: 12.0,
        finished=lambda output: None,
    )
    supervisor = Supervisor(log, Silent(), "compile", estimate=estimate, max_jobs=4)
    supervisor.line("[1/9] Building object a.o")
    assert asked == [{"jobs": 4, "steps_left": 8, "elapsed": 0.0}]
    now[0] = 105.0
    assert supervisor._time_left() == 45.0, "between two counts it runs down"
    job = JobView(name="b.o", seconds=10.0, bytes=1, paused=False, expected=12.0)
    supervisor.done = 8
    assert supervisor._time_left([job]) == 2.0
    assert len(asked) == 1
    now[0] = 110.1
    assert supervisor._time_left() == 50.0 and len(asked) == 2
