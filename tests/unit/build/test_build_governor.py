"""The governor on made-up process trees: what is a job, what it makes, and that decisions are carried out."""

from __future__ import annotations

from typing import Any, cast

import pytest

from rekindle.build import governor as room
from rekindle.build.governor import Governor, job_roots
from rekindle.build.history import History, ObjectCosts
from rekindle.host import processes
from rekindle.host.jobserver import Jobserver
from rekindle.host.memory import MemoryNow
from rekindle.host.processes import Proc, by_parent

MIB = 1 << 20

# guard(1) - setup(2) - cmake(3) - ninja(4) - two shells (5, 7) with compilers; 9 is a nested ninja with its job.
TREE = [
    Proc(2, 1, "python", 1, 20 * MIB),
    Proc(3, 2, "cmake", 2, 10 * MIB),
    Proc(4, 3, "ninja", 3, 10 * MIB),
    Proc(5, 4, "sh", 4, MIB),
    Proc(6, 5, "cc1plus", 5, 300 * MIB),
    Proc(7, 4, "sh", 6, MIB),
    Proc(8, 7, "cc1plus", 7, 300 * MIB),
    Proc(9, 4, "sh", 8, MIB),
    Proc(10, 9, "ninja", 9, MIB),
    Proc(11, 10, "cc1", 10, 50 * MIB),
]


def test_jobs_are_the_innermost_ninjas_children() -> None:
    assert [root.pid for root in job_roots(TREE, by_parent(TREE))] == [5, 7, 11]
    for name, roots in (("ninja.exe", [2]), ("ninjago", [])):
        tree = [Proc(1, 0, name, 1, MIB), Proc(2, 1, "cc1", 2, MIB)]
        assert [root.pid for root in job_roots(tree, by_parent(tree))] == roots


class Server:
    def __init__(self) -> None:
        self.level = 0

    def set_level(self, level: int) -> None:
        self.level = level


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    state: dict[str, Any] = {"tree": list(TREE), "free": 20_000 * MIB, "paused": [], "resumed": [], "killed": []}
    monkeypatch.setattr(processes, "tree_of", lambda root: state["tree"])
    monkeypatch.setattr(processes, "peak_rss", lambda pid: 0)
    monkeypatch.setattr(processes, "prefer_as_victim", lambda pid: None)
    monkeypatch.setattr(processes, "command_line", lambda pid: ["sh", "-c", f"g++ -o dir/{pid}.cpp.o -c x.cpp"])
    monkeypatch.setattr(processes, "pause", lambda pids: state["paused"].extend(pids))
    monkeypatch.setattr(processes, "go_on", lambda pids: state["resumed"].extend(pids))
    monkeypatch.setattr(processes, "kill", lambda pids: state["killed"].extend(pids))
    monkeypatch.setattr(
        room, "read_memory", lambda: MemoryNow(total=24_000 * MIB, available=state["free"], limited_by="machine")
    )
    return state


def test_plenty_gives_every_token(world: dict[str, Any]) -> None:
    server = Server()
    governor = Governor(cast("Jobserver", server), ObjectCosts(History()), max_jobs=8)
    governor.tick(1)
    assert server.level == 7
    assert governor.peak_bytes == sum(process.rss for process in TREE)
    assert world["paused"] == []


def test_little_pauses_the_youngest_whole_family_and_lets_it_go_on(world: dict[str, Any]) -> None:
    learnt = ObjectCosts(History(objects={f"dir/{pid}.cpp.o": (900 * MIB, 9.0) for pid in (5, 7, 11)}))
    server = Server()
    governor = Governor(cast("Jobserver", server), learnt, max_jobs=8)
    world["free"] = 1900 * MIB
    governor.tick(1)
    assert set(world["paused"]) == {7, 8, 11}
    assert governor.pauses == 2
    world["tree"] = [process for process in TREE if process.pid not in (5, 6)]
    world["free"] = 6000 * MIB
    governor.tick(1)
    assert {7, 8, 11} <= set(world["resumed"])
    assert (learnt.peak("dir/5.cpp.o") or 0) >= 301 * MIB


def test_the_budget_counts_everything_below_us(world: dict[str, Any]) -> None:
    server = Server()
    governor = Governor(cast("Jobserver", server), ObjectCosts(History()), max_jobs=8, budget=1000 * MIB)
    governor.tick(1)
    assert governor.limited_by == "--memory"
    assert server.level < 3


def test_alone_means_one(world: dict[str, Any]) -> None:
    server = Server()
    governor = Governor(cast("Jobserver", server), ObjectCosts(History()), max_jobs=8)
    governor.solo = True
    world["tree"] = TREE[:3]
    governor.tick(1)
    assert server.level == 0


def test_samples_stay_bounded(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_SAMPLES", 50)
    governor = Governor(None, ObjectCosts(History()), max_jobs=2)
    for _ in range(400):
        governor.tick(1)
    assert len(governor.samples) <= 51


# Ninja (4) with four clients of sccache behind the launcher's shell, and sccache's server (50) with a compiler here.
FARMED = [
    *TREE[:3],
    *(Proc(pid, 4, "launch", pid, MIB) for pid in (20, 22, 24, 26)),
    *(Proc(pid + 1, pid, "sccache", pid, 8 * MIB) for pid in (20, 22, 24, 26)),
]
SERVED = [Proc(51, 50, "g++", 30, MIB), Proc(52, 51, "cc1plus", 31, 400 * MIB)]


def farmed(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch, max_jobs: int = 40) -> tuple[Governor, Server]:
    server = Server()
    governor = Governor(cast("Jobserver", server), ObjectCosts(History()), max_jobs=max_jobs)
    governor.server = 50
    world["tree"] = list(FARMED)
    monkeypatch.setattr(processes, "tree_of", lambda root: SERVED if root == 50 else list(world["tree"]))
    return governor, server


def test_clients_of_a_farm_are_many_though_memory_is_for_few(
    world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    governor, server = farmed(world, monkeypatch)
    world["free"] = 6000 * MIB
    governor.tick(1)
    assert server.level == 39 and world["paused"] == []
    assert governor.running == 4 and len(governor.jobs()) == 4
    # What the server compiles here is ours all the same.
    assert governor.peak_bytes == sum(process.rss for process in (*FARMED, *SERVED))


def test_without_memory_no_client_is_added_and_what_compiles_here_is_governed(
    world: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    governor, server = farmed(world, monkeypatch)
    served_twice = [*SERVED, Proc(53, 50, "g++", 40, MIB), Proc(54, 53, "cc1plus", 41, 400 * MIB)]
    monkeypatch.setattr(processes, "tree_of", lambda root: served_twice if root == 50 else list(world["tree"]))
    world["free"] = 1100 * MIB
    governor.tick(1)
    assert set(world["paused"]) == {53, 54} and server.level <= 4
    assert governor.running == 4


def test_what_waits_for_a_farm_teaches_nothing(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    learnt = ObjectCosts(History())
    governor = Governor(None, learnt, max_jobs=8)
    governor.server = 50
    world["tree"] = list(FARMED)
    monkeypatch.setattr(processes, "tree_of", lambda root: SERVED if root == 50 else list(world["tree"]))
    governor.tick(1)
    world["tree"] = []
    monkeypatch.setattr(processes, "tree_of", lambda root: [])
    governor.tick(1)
    assert len(learnt.history().objects) == 1 and learnt.peak("dir/51.cpp.o")


def test_jobs_may_change_while_it_runs(world: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    governor, server = farmed(world, monkeypatch, max_jobs=12)
    governor.tick(1)
    assert server.level == 11
    governor.max_jobs = 2
    governor.tick(1)
    assert server.level == 3  # the four that are there stay, none is added
