"""What watches a running command: when it looks at disk and cache, and the build as the user sees it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.build import work as watching
from rekindle.build.failure import BuildLog
from rekindle.build.governor import Governor, Sample
from rekindle.build.history import History, ObjectCosts
from rekindle.build.launchers import Launcher
from rekindle.build.work import Supervisor, Work, run_supervised
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.progress import BuildView, JobView, Progress, Silent

RUNNING: Any = SimpleNamespace(pid=1)


class Screen(Progress):
    """What was shown: steps by their words, builds as they are."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float | None, str]] = []
        self.views: list[BuildView] = []

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.steps.append((done, total, detail))

    def panel(self, view: BuildView) -> None:
        self.views.append(view)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BuildLog]:
    made = BuildLog(tmp_path / "b.log")
    yield made
    made.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The machine has just been started."""
    now = [2.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_the_disk_is_looked_at_first_and_then_every_five_seconds(
    log: BuildLog, clock: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    monkeypatch.setattr(watching, "stop_before_full", lambda place: looked.append(clock[0]))
    one = Supervisor(log, Silent(), "compile", disk=tmp_path)
    for clock[0] in (2.0, 6.9, 7.0, 7.1, 12.0, 12.2):
        one.tick(RUNNING)
    assert looked == [2.0, 7.1, 12.2]
    Supervisor(log, Silent(), "compile").tick(RUNNING)
    assert len(looked) == 3, "no disk was named"


def test_the_governor_says_when_to_look_again(log: BuildLog) -> None:
    governor: Any = SimpleNamespace(look=lambda pid: 0.25 + pid, jobs=list, samples=[])
    assert Supervisor(log, Silent(), "compile", governor=governor).tick(RUNNING) == 1.25
    assert Supervisor(log, Silent(), "compile").tick(RUNNING) is None


def test_what_the_farm_has_to_say_is_said(log: BuildLog) -> None:
    said: list[str] = []
    farm: Any = SimpleNamespace(news=lambda: iter(["one", "two"]))
    Supervisor(log, Silent(), "compile", farm=farm, say=said.append).tick(RUNNING)
    assert said == ["one", "two"]


def test_before_the_first_step_the_stage_and_its_seconds_are_shown(log: BuildLog, clock: list[float]) -> None:
    screen = Screen()
    one = Supervisor(log, screen, "c" * 120)
    clock[0] += 42.4
    one.tick(RUNNING)
    assert screen.steps == [(0, None, f"{'c' * 100}: 42 s")] and screen.views == []
    one.line("[1/9] Building object a.o")
    assert [(view.done, view.total) for view in screen.views] == [(1, 9)] and one.stage == "Building object a.o"


def test_each_line_is_logged_and_told_and_only_statuses_are_counted(log: BuildLog) -> None:
    seen: list[str] = []
    one = Supervisor(log, Silent(), "compile", watch=seen.append)
    for line in ("hello", "[3/9] Linking library x.so", "a [4/9] b"):
        one.line(line)
    assert seen == ["hello", "[3/9] Linking library x.so", "a [4/9] b"] and list(log.recent)[-3:] == seen
    assert (one.done, one.total) == (3, 9)


def view_after(log: BuildLog, clock: list[float], seconds: float, done: int, **more: Any) -> BuildView:
    one = Supervisor(log, Silent(), "compile", **more)
    one.done, one.total = done, 100
    clock[0] += seconds
    return one.view()


def test_the_pace_is_told_after_twenty_seconds(log: BuildLog, clock: list[float]) -> None:
    assert view_after(log, clock, 20, 10).per_minute is None
    assert view_after(log, clock, 30, 0).per_minute is None
    assert view_after(log, clock, 20.5, 41).per_minute == 120
    assert view_after(log, clock, 120, 7).per_minute == 3.5


def governor_with(*samples: Sample) -> Governor:
    governor = Governor(None, ObjectCosts(History()), max_jobs=2)
    governor.samples += samples
    return governor


def test_memory_and_jobs_are_those_of_the_last_look(log: BuildLog, clock: list[float]) -> None:
    old = Sample(seconds=1, used=1, available=2, running=3, paused=4, allowed=5)
    new = Sample(seconds=2, used=10, available=20, running=30, paused=40, allowed=50)
    seen = view_after(log, clock, 1, 1, governor=governor_with(old, new))
    assert (seen.used, seen.free, seen.running, seen.paused, seen.allowed) == (10, 20, 30, 40, 50)
    assert view_after(log, clock, 1, 1, governor=governor_with()).used is None


def test_jobs_are_told_with_what_is_expected_of_them(log: BuildLog, clock: list[float]) -> None:
    governor: Any = SimpleNamespace(jobs=lambda: [("d/a.o", 5.0, 7, True)], samples=[])
    estimate: Any = SimpleNamespace(seconds=lambda output: 12.0, left=lambda **how: 30.0)
    [job] = view_after(log, clock, 1, 1, governor=governor, estimate=estimate).jobs
    assert job == JobView(name="a.o", seconds=5.0, bytes=7, paused=True, expected=12.0)
    [job] = view_after(log, clock, 1, 1, governor=governor).jobs
    assert job.expected is None


def test_of_a_farm_its_slots_and_what_it_compiled_are_told(log: BuildLog, clock: list[float]) -> None:
    farm: Any = SimpleNamespace(counts=SimpleNamespace(elsewhere=5, local=6), status=SimpleNamespace(slots=7))
    seen = view_after(log, clock, 1, 1, farm=farm)
    assert (seen.elsewhere, seen.here, seen.slots) == (5, 6, 7)
    assert view_after(log, clock, 1, 1).elsewhere is None


def test_the_cache_is_asked_every_fifteen_seconds_and_not_at_once(log: BuildLog, clock: list[float]) -> None:
    """Its first answer would be of nothing, and asking starts a program."""
    asked: list[float] = []
    answers = {"hits": "3", "misses": "4"}

    def cache() -> dict[str, str]:
        asked.append(clock[0])
        return dict(answers)

    one = Supervisor(log, Silent(), "compile", cache=cache)
    counted = []
    for clock[0] in (2.0, 17.0, 17.1, 30.0, 32.2):
        counted.append((one.view().hits, one.view().misses))
        answers["hits"] = "9"
    assert asked == [17.1, 32.2]
    assert counted == [(None, None), (None, None), (9, 4), (9, 4), (9, 4)]


@pytest.mark.parametrize("answer", [{}, {"hits": "5"}, {"misses": "5"}, {"hits": "5", "misses": "many"}])
def test_a_cache_that_does_not_count_tells_nothing(answer: dict[str, str], log: BuildLog, clock: list[float]) -> None:
    one = Supervisor(log, Silent(), "compile", cache=lambda: answer)
    clock[0] += 16
    assert (one.view().hits, one.view().misses) == (None, None)


def test_the_time_left_is_counted_anew_after_ten_seconds_and_never_below_nothing(
    log: BuildLog, clock: list[float]
) -> None:
    estimate: Any = SimpleNamespace(left=lambda **how: 7.0)
    one = Supervisor(log, Silent(), "compile", estimate=estimate)
    one.total = 9
    left = []
    for clock[0] in (2.0, 5.0, 11.0, 12.0, 12.1):
        left.append(one._time_left())
    assert left == [7.0, 4.0, 0.0, 0.0, 7.0]
    assert Supervisor(log, Silent(), "compile")._time_left() is None


def test_a_job_of_which_nothing_is_expected_may_end_at_once(log: BuildLog, clock: list[float]) -> None:
    estimate: Any = SimpleNamespace(left=lambda **how: 7.0)
    one = Supervisor(log, Silent(), "compile", estimate=estimate)
    one.done, one.total = 8, 9
    assert one._time_left([JobView(name="a.o", seconds=0.25)]) == 0.0


def test_a_command_that_counts_no_steps_has_none(log: BuildLog, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "print('hello')"]
    code = run_supervised(
        argv, tmp_path, dict(os.environ), log=log, supervise=lambda: Supervisor(log, Silent(), "compile")
    )
    assert code == (0, 0) and "hello" in log.recent


def building(tmp_path: Path, log: BuildLog, **more: Any) -> Work:
    parts: Any = {
        "plan": None,
        "tree": SimpleNamespace(project="torch"),
        "front": SimpleNamespace(root=tmp_path, build_tree=tmp_path / "build", ninja_tree=tmp_path),
        **more,
    }
    place = Workspace(tmp_path)
    return Work(
        **parts, workspace=place, options=BuildOptions(), progress=Silent(), host=LiveHost(), log=log, version="1"
    )


def test_a_build_begins_with_nothing_done(log: BuildLog, tmp_path: Path) -> None:
    command = Supervisor(log, Silent(), "compile")
    assert (command.done, command.total, command.max_jobs, command.alone) == (0, 0, 1, set())
    made = building(tmp_path, log)
    assert not made.editable and not made.resumed and (made.steps, made.facts, made.notes) == (0, (), [])
    assert made.compiled_where == {}


def test_who_compiled_what_is_told_by_name_where_it_is_known(log: BuildLog, tmp_path: Path) -> None:
    jobs = [("a.o", "10.0.0.2:1"), ("b.o", ""), ("c.o", None)]
    farm: Any = SimpleNamespace(
        compilations=lambda: [SimpleNamespace(object=name, where=where) for name, where in jobs],
        farm=SimpleNamespace(name_of=lambda address: f"<{address}>"),
    )
    assert building(tmp_path, log, farm=farm).compiled_where == {"a.o": "<10.0.0.2:1>", "b.o": "here"}


def test_a_phase_has_its_seconds(log: BuildLog, tmp_path: Path, clock: list[float]) -> None:
    made = building(tmp_path, log)
    with made.phase("configure"):
        clock[0] += 7
    assert [(span.name, span.seconds) for span in made.spans] == [("configure", 7)]
    assert list(log.recent)[-1] == "== configure"


@pytest.mark.parametrize(("name", "counts"), [("ccache", True), ("sccache", True), ("distcc", False), (None, False)])
def test_only_a_cache_is_asked_for_hits(name: str | None, counts: bool, log: BuildLog, tmp_path: Path) -> None:
    jobs: Any = SimpleNamespace(governor=governor_with(), learnt=ObjectCosts(History()), max_jobs=5)
    launcher = Launcher(name=name, path="/nowhere") if name else None
    farm: Any = SimpleNamespace()
    made = building(tmp_path, log, jobs=jobs, launcher=launcher, farm=farm)
    one = made._supervisor("compile", lambda line: None)
    assert (one.cache is not None) is counts
    assert (one.max_jobs, one.disk, one.governor, one.farm) == (5, tmp_path / "build", jobs.governor, farm)
    one.say("hello")
    assert made.notes == ["hello"] and one.stage == "compile" and one.estimate is None
