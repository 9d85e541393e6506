"""Cells on a Dask cluster, whose scheduler is a stand-in: who is asked what, and what becomes of a task."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from rekindle.errors import BadInput, Interrupted
from rekindle.matrix import engine
from rekindle.matrix.engine import DaskEngine, Ending, Task
from rekindle.model.matrix import Worker

HERE = Worker(name="here", system="linux-x86_64", slots=2)
TASK = Task(cell="c", argv=(), worker="tcp://a")


class FakeFuture:
    """A future of Dask's: its state is what the test says."""

    def __init__(self, ending: Ending) -> None:
        self.status, self.ending, self.cancelled = "pending", ending, False

    def result(self) -> Ending:
        return self.ending

    def cancel(self) -> None:
        self.cancelled = True


class FakeClient:
    """A scheduler with two workers, one of which does not answer."""

    def __init__(self, address: str, *, timeout: float, set_as_default: bool) -> None:
        assert set_as_default is False, "a user's own client of another cluster stays the usual one"
        if address == "tcp://nowhere":
            raise TimeoutError("timed out")
        self.status = "running"
        self.there = ["tcp://b", "tcp://a"]
        self.described: list[list[str]] = []
        self.futures: list[FakeFuture] = []
        self.sent: list[dict[str, object]] = []

    def scheduler_info(self, n_workers: int = 5) -> dict[str, object]:
        assert n_workers in (-1, 5), "all of them, or as many as it shows by itself"
        return {"workers": dict.fromkeys(self.there[: n_workers if n_workers > 0 else None])}

    def run(self, describe: object, *, workers: list[str], on_error: str) -> dict[str, object]:
        self.described.append(workers)
        return {name: HERE if name == "tcp://a" else OSError("gone") for name in workers}

    def submit(self, function: object, task: Task, cancel: str, **more: object) -> FakeFuture:
        self.sent.append({"task": task, "cancel": cancel, **more})
        self.futures.append(FakeFuture(Ending(cell=task.cell, code=7, seconds=1.0)))
        return self.futures[-1]

    def close(self, timeout: float) -> None:
        self.status = "closed"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> DaskEngine:
    monkeypatch.setattr(engine, "need_package", lambda name, purpose: None)
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=FakeClient))
    monkeypatch.setattr(engine, "ASK_SECONDS", 0.0)
    return DaskEngine("tcp://here", describe=lambda: HERE, cancel_file=lambda cell: f"/cancel/{cell}")


def test_workers_of_a_cluster_are_asked_once_and_build_one_cell_each(cluster: DaskEngine) -> None:
    for _ in range(2):
        assert [(each.name, each.slots) for each in cluster.workers()] == [("tcp://a", 1)]
    assert cluster._client.described == [["tcp://a", "tcp://b"], ["tcp://b"]], "who does not answer is asked again"


def test_an_older_dask_tells_all_its_workers_by_itself(cluster: DaskEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster._client, "scheduler_info", lambda: {"workers": {"tcp://a": {}, "tcp://b": {}}})
    assert [each.name for each in cluster.workers()] == ["tcp://a"]


def test_a_task_is_bound_to_its_worker_and_ends_once(cluster: DaskEngine) -> None:
    cluster.submit(TASK)
    (sent,) = cluster._client.sent
    assert sent["workers"] == ["tcp://a"] and sent["allow_other_workers"] is False and sent["retries"] == 0
    assert sent["cancel"] == "/cancel/c"
    assert cluster.wait(0.0) == []
    cluster._client.futures[0].status = "finished"
    assert [each.code for each in cluster.wait(5.0)] == [7]
    assert cluster.wait(0.0) == []


@pytest.mark.parametrize("status", ["error", "cancelled", "lost", "gone"])
def test_what_a_cluster_loses_is_lost(cluster: DaskEngine, status: str) -> None:
    cluster.submit(TASK)
    if status == "gone":
        cluster._client.there.remove("tcp://a")
    else:
        cluster._client.futures[0].status = status
    assert [(each.code, each.why) for each in cluster.wait(5.0)] == [(1, "lost")]
    assert cluster._client.futures[0].cancelled


class Clock:
    """Stands in for :mod:`time`; it goes on only where somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, 0

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        return int(self.now * 1e9)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1


def test_a_cluster_is_asked_again_and_again_until_the_time_is_over(
    cluster: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(engine, "time", clock)
    monkeypatch.setattr(engine, "ASK_SECONDS", 0.25)
    cluster.submit(TASK)
    assert cluster.wait(1.0) == [] and (clock.now, clock.slept) == (101.0, 4)

    class Later(FakeFuture):
        @property
        def status(self) -> str:
            return "finished" if clock.now >= 103.0 else "pending"

        @status.setter
        def status(self, _: str) -> None:
            return

    future = Later(Ending(cell="c", code=0, seconds=2.0))
    cluster._running["c"] = (future, *cluster._running["c"][1:])
    assert [each.code for each in cluster.wait(600.0)] == [0] and clock.now == 103.0, "at once when it has ended"


def test_a_lost_task_took_the_time_since_it_was_given_away(
    cluster: DaskEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(engine, "time", clock)
    cluster.submit(TASK)
    clock.now += 42.0
    cluster._client.futures[0].status = "lost"
    assert [each.seconds for each in cluster.wait(1.0)] == [42.0]


def test_a_cluster_is_asked_often_enough_that_no_worker_idles_for_long() -> None:
    assert 0 < engine.ASK_SECONDS < 1


def test_a_scheduler_that_is_gone_interrupts(cluster: DaskEngine) -> None:
    cluster.close()
    with pytest.raises(Interrupted, match="scheduler is gone"):
        cluster.wait(0.0)
    with pytest.raises(BadInput, match="no Dask scheduler answers at tcp://nowhere: timed out"):
        DaskEngine("tcp://nowhere", describe=lambda: HERE, cancel_file=str)
