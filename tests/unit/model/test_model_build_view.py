"""What is said of a build while it runs: one line for a pipe, and which compilers it waits for."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.model.progress import GIANT_SECONDS, BuildView, JobView, Silent, show_build


def job(name: str, seconds: float, **more: object) -> JobView:
    return JobView(name=name, seconds=seconds, **more)  # type: ignore[arg-type]


def test_only_the_slowest_two_are_named_and_only_where_they_are_slow() -> None:
    giants = tuple(job(name, GIANT_SECONDS) for name in ("a.cu", "b.cu", "c.cu"))
    assert BuildView(done=1, total=9, jobs=giants).line == "1/9  slow: a.cu 20 s, b.cu 20 s"
    mixed = (job("a.cu", GIANT_SECONDS), job("b.cpp", GIANT_SECONDS - 0.1))
    assert BuildView(done=1, total=9, jobs=mixed).line == "1/9  slow: a.cu 20 s"
    assert BuildView(done=1, total=9, jobs=mixed[1:]).line == "1/9"


@pytest.mark.parametrize(
    ("seconds", "expected", "giant"),
    [(20.0, None, True), (19.9, None, False), (1.0, 20.0, True), (1.0, 19.9, False)],
)
def test_a_giant_takes_long_now_or_took_long_before(seconds: float, expected: float | None, giant: bool) -> None:
    assert job("a", seconds, expected=expected).is_giant is giant


@pytest.mark.parametrize(
    ("running", "late"),
    [
        (job("a", 20.0), False),
        (job("a", 20.1), True),
        (job("a", 45.0, expected=30.0), False),
        (job("a", 45.1, expected=30.0), True),
        (job("a", 99.0, paused=True), False),
        (job("a", 19.0, expected=1.0), False),
        (job("a", 20.1, expected=1.0), True),
        (job("a", 20.1, expected=0.0), True),
        (job("a", 99.0, expected=600.0), False),
    ],
)
def test_what_runs_well_past_its_time_is_what_the_end_waits_for(running: JobView, late: bool) -> None:
    view = BuildView(done=1, total=2, jobs=(job("b", 1.0), running))
    assert (view.overdue == running) is late and (view.overdue is None) is not late


def test_the_words_of_a_build_leave_out_what_nobody_knows() -> None:
    gib = 1 << 30
    known: dict[str, Any] = {"used": 2 * gib, "free": 6 * gib, "running": 4, "allowed": 8, "paused": 1}
    known |= {"elsewhere": 5, "here": 2, "slots": 16, "hits": 1, "misses": 3}
    view = BuildView(done=3, total=9, per_minute=12.4, **known)
    assert view.words == [
        "3/9",
        "12/min",
        "mem 2.0 GiB (6.0 free)",
        "jobs 4/8 +1 paused",
        "cache 1 of 4",
        "farm 5 there, 2 here (16 slots)",
    ]
    assert BuildView(done=0, total=9, used=1, hits=0, misses=0, per_minute=0.0).words == ["0/9"]
    assert BuildView(done=0, total=9, free=1, hits=2).words == BuildView(done=0, total=9, misses=2).words == ["0/9"]
    for hits, misses, said in ((2, 2, "cache 2 of 4"), (0, 3, "cache 0 of 3"), (3, 0, "cache 3 of 3")):
        assert BuildView(done=0, total=9, hits=hits, misses=misses).words == ["0/9", said]
    assert BuildView(done=0, total=9, running=1, allowed=2).words == ["0/9", "jobs 1/2"]


@pytest.mark.parametrize(
    ("left", "seconds", "said"),
    [
        (9.9, 21.0, "longer than expected"),
        (9.9, 20.0, "almost done"),
        (10.0, 21.0, "about 10 s left"),
        (0.0, 99.0, "longer than expected"),
    ],
)
def test_no_time_is_told_where_only_what_is_overdue_is_left(left: float, seconds: float, said: str) -> None:
    assert BuildView(done=8, total=9, left=left, jobs=(job("a.cu", seconds),)).words == ["8/9", said]


def test_the_latest_of_those_overdue_is_the_one_that_is_waited_for() -> None:
    jobs = (job("a", 30.0), job("b", 50.0), job("c", 40.0), job("d", 90.0, expected=80.0))
    assert BuildView(done=1, total=9, jobs=jobs).overdue == jobs[1]
    assert BuildView(done=1, total=9).overdue is None


def test_a_listener_with_a_panel_gets_the_whole_view_and_another_one_a_step() -> None:
    class Panel(Silent):
        seen: object = None

        def panel(self, view: BuildView) -> None:
            self.seen = view

    class Steps(Silent):
        seen: object = None

        def step(self, done: float, total: float | None, detail: str = "") -> None:
            self.seen = (done, total, detail)

    view, panel, steps = BuildView(done=1, total=2), Panel(), Steps()
    show_build(panel, view)
    show_build(steps, view)
    assert panel.seen is view and steps.seen == (1, 2, "1/2")
