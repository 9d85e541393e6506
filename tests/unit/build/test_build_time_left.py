"""The time left runs down between two counts, and near the end says no more than what runs still takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.build.failure import BuildLog
from rekindle.build.work import Supervisor
from rekindle.model.progress import JobView, Silent


class Fixed:
    """An estimate that always says 85 seconds."""

    def left(self, **_: Any) -> float:
        return 85.0

    def seconds(self, output: str) -> float:
        return 60.0

    def finished(self, output: str) -> None:
        """Nothing."""


@pytest.fixture
def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[Supervisor, list[float]]:
    clock = [1000.0]
    monkeypatch.setattr("rekindle.build.work.time.monotonic", lambda: clock[0])
    log = BuildLog(tmp_path / "log")
    request.addfinalizer(log.close)
    one = Supervisor(log, Silent(), "compile", estimate=Fixed())  # type: ignore[arg-type]
    one.done, one.total = 90, 100
    return one, clock


def test_between_two_counts_it_runs_down(watched: tuple[Supervisor, list[float]]) -> None:
    one, clock = watched
    assert one._time_left() == 85.0
    clock[0] += 8
    assert one._time_left() == 77.0
    clock[0] += 3  # counted anew
    assert one._time_left() == 85.0


def test_when_only_what_runs_is_left_it_is_no_longer_than_that(watched: tuple[Supervisor, list[float]]) -> None:
    one, _ = watched
    one.done = 98
    ending = [JobView(name="a", seconds=58.0, expected=60.0), JobView(name="b", seconds=59.0, expected=60.0)]
    assert one._time_left(ending) == 2.0
    assert one._time_left(ending[:1]) == 85.0  # another step still waits
    over = [JobView(name="a", seconds=70.0, expected=60.0), JobView(name="b", seconds=70.0)]
    assert one._time_left(over) == 0.0
