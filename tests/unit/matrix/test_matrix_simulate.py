"""The real loop in virtual time: everything is built, near the best possible, whatever dies."""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from types import SimpleNamespace

import pytest
from matrix_mini import cell

from rekindle.errors import BadInput
from rekindle.matrix import simulate as simulation
from rekindle.matrix.engine import Task
from rekindle.matrix.run import Loop
from rekindle.matrix.simulate import World, model_workers, simulate


def cells(count: int, pythons: int = 5) -> list:  # type: ignore[type-arg]
    return [cell(n, tree=n // pythons, minutes=30 + (n * 37) % 90) for n in range(count)]


@pytest.mark.parametrize("failures", [0.0, 0.05, 0.3])
def test_everything_is_built_whatever_dies(failures: float) -> None:
    found = simulate(cells(100), 10, failure_rate=failures)
    assert found.built == 100
    assert found.unbuilt == 0
    assert found.makespan_hours >= found.lower_bound_hours * 0.999
    assert (found.failures > 0) is (failures > 0)


def test_without_failures_the_end_is_near_the_best() -> None:
    assert simulate(cells(200), 10, failure_rate=0.0).ratio < 1.10


def test_what_does_not_compile_is_left_and_counted() -> None:
    found = simulate(cells(100), 10, broken=0.2)
    assert 0 < found.unbuilt < 50
    assert found.built + found.unbuilt == 100


def test_one_worker_does_all_the_work_one_after_another() -> None:
    found = simulate(cells(20), 1, failure_rate=0.0)
    assert found.ratio == pytest.approx(1.0, abs=0.02)


def test_a_worker_that_died_is_away_for_a_while() -> None:
    world = World(cells(1), 2, failure_rate=1.0, broken=0.0, seed=1)
    names = [worker.name for worker in world.workers()]
    assert len(names) == 2
    world.submit(Task(cell=cells(1)[0].id, argv=(), worker=names[0]))
    assert [ending.why for ending in world.wait(1.0)] == ["lost"]
    assert [worker.name for worker in world.workers()] == names[1:]
    assert world.wait(59.0) == []
    assert [worker.name for worker in world.workers()] == names[1:]
    assert world.wait(1.0) == []
    assert [worker.name for worker in world.workers()] == names


def test_nobody_dies_where_nobody_can(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(cells(1), 1, failure_rate=0.0, broken=0.0, seed=1)
    monkeypatch.setattr(world._random, "random", lambda: 0.0)
    world.submit(Task(cell=cells(1)[0].id, argv=(), worker="w0000"))
    assert [ending.why for ending in world.wait(1.0)] == [""]


def test_times_are_told_in_hours() -> None:
    one = [cell(1, minutes=60_000)]
    world = World(one, 1, failure_rate=0.0, broken=0.0, seed=1)
    made = simulate(one, 1, failure_rate=0.0)
    assert made.lower_bound_hours == made.makespan_hours == round(world.lower_bound() / 3600, 3) > 100
    assert (made.cells, made.workers, made.failures, made.lost_hours) == (1, 1, 0, 0.0)


def test_what_a_death_costs_is_what_was_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred hours half are done when the worker dies; only the two minutes in flight are made again."""
    one = cell(1, minutes=6000)
    world = World([one], 1, failure_rate=0.5, broken=0.0, seed=1)
    world._truth[one.id] = 360_000.0
    dice = iter((0.0, 0.5, 0.9))
    monkeypatch.setattr(world._random, "random", lambda: next(dice))
    world.submit(Task(cell=one.id, argv=(), worker="w0000"))
    assert [(ending.why, ending.seconds) for ending in world.wait(1.0)] == [("lost", 180_000.0)]
    assert (world.failures, world.lost_seconds) == (1, 120.0)
    world.submit(Task(cell=one.id, argv=(), worker="w0000"))
    assert [ending.seconds for ending in world.wait(1.0)] == [180_120.0]
    assert world.built == {one.id}


def test_a_cell_that_does_not_compile_ends_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    one = cell(1)
    world = World([one], 1, failure_rate=0.1, broken=1.0, seed=1)
    world._truth[one.id] = 1000.0
    dice = iter((0.9, 0.25))
    monkeypatch.setattr(world._random, "random", lambda: next(dice))
    world.submit(Task(cell=one.id, argv=(), worker="w0000"))
    assert [(ending.code, ending.seconds) for ending in world.wait(1.0)] == [(0, 250.0)]
    assert world.decide(one, fresh_run=False) == (False, "it does not compile", 1) and not world.built


def test_the_same_seed_is_the_same_world_whose_estimates_are_off_by_a_fifth() -> None:
    some = [cell(n, minutes=1.0) for n in range(400)]
    world = World(some, 1, failure_rate=0.0, broken=0.0, seed=7)
    assert world._truth == World(some, 1, failure_rate=0.0, broken=0.0, seed=7)._truth
    off = [math.log(seconds / 60) for seconds in world._truth.values()]
    assert abs(statistics.mean(off)) < 0.05 and 0.15 < statistics.stdev(off) < 0.25
    first = random.Random(7).lognormvariate(0.0, 0.2)
    assert world._truth[some[0].id] == pytest.approx(60 * first)
    assert [worker.memory_gib for worker in world.workers()] == [64.0]


def test_what_is_nearly_done_still_takes_a_moment() -> None:
    one = cell(1)
    world = World([one], 1, failure_rate=0.0, broken=0.0, seed=1)
    world._kept[one.id] = 1e9
    world.submit(Task(cell=one.id, argv=(), worker="w0000"))
    assert [ending.seconds for ending in world.wait(1.0)] == [5.0]


def test_why_a_cell_is_built_is_told_by_whether_it_was_tried() -> None:
    world = World([cell(1)], 1, failure_rate=0.0, broken=0.0, seed=1)
    said = [world.decide(cell(1), fresh_run=fresh).because for fresh in (True, False)]
    assert said == ["never built", "its worker was lost"]


def test_where_nothing_compiles_nothing_has_to_be_done() -> None:
    found = simulate(cells(4), 2, failure_rate=0.0, broken=1.0)
    assert (found.built, found.unbuilt, found.lower_bound_hours, found.ratio) == (0, 4, 0.0, 1.0)


def test_workers_are_of_the_system_of_the_cells() -> None:
    assert simulate([cell(1, system="windows-x86_64")], 1, failure_rate=0.0).built == 1
    assert simulate([], 3).unbuilt == 0


def test_every_system_of_a_table_has_workers_and_most_have_those_with_most_work() -> None:
    mixed = [cell(n, tree=n, minutes=90 if n < 8 else 30, system="linux-x86_64" if n < 8 else "win") for n in range(12)]
    assert Counter(worker.system for worker in model_workers(mixed, 6)) == {"linux-x86_64": 5, "win": 1}
    assert {worker.system for worker in model_workers(mixed, 2)} == {"linux-x86_64", "win"}
    found = simulate(mixed, 6, failure_rate=0.0)
    assert found.built == 12 and 1.0 <= found.ratio < 1.5
    with pytest.raises(BadInput, match="cannot build every cell: w0000 is linux-x86_64") as refused:
        simulate(mixed, 1)
    assert "--workers 2" in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("minutes", "shares"), [((30, 30), (2, 2)), ((50, 20), (5, 2)), ((20, 50), (2, 5)), ((1, 3), (2, 6))]
)
def test_workers_are_shared_by_the_work_that_waits(minutes: tuple[int, int], shares: tuple[int, int]) -> None:
    both = [cell(n, tree=n, minutes=minutes[n], system=f"system-{n}") for n in (0, 1)]
    held = Counter(worker.system for worker in model_workers(both, sum(shares)))
    assert (held["system-0"], held["system-1"]) == shares


def test_a_cell_that_needs_much_memory_has_a_worker_for_it() -> None:
    assert simulate([cell(1, memory_gib=200.0)], 1, failure_rate=0.0).built == 1


def test_losses_are_told_in_hours() -> None:
    made = simulate(cells(100), 10, failure_rate=0.3)
    assert made.failures > 10
    assert 0 < made.lost_hours <= round(made.failures * 120 / 3600, 3)


def test_what_is_told_is_what_became_of_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same world by hand: hours of three digits, and the loop's own time on this machine's processor."""
    some = cells(100)
    world = World(some, 10, failure_rate=0.9, broken=0.0, seed=3)
    bound = world.lower_bound()
    Loop(some, world, world, lambda: world.now_seconds, wait_seconds=math.inf).run()
    moments = iter((10.0, 12.34567))
    monkeypatch.setattr(simulation, "time", SimpleNamespace(process_time=lambda: next(moments)))
    made = simulate(some, 10, failure_rate=0.9, seed=3)
    assert made.lost_hours == round(world.lost_seconds / 3600, 3) > 10
    assert made.makespan_hours == round(world.now_seconds / 3600, 3) > 10
    assert made.ratio == round(world.now_seconds / bound, 3) > 1
    assert (made.failures, made.scheduler_cpu_seconds) == (world.failures, 2.346)


def test_where_nothing_is_broken_everything_compiles_whatever_the_dice_say(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros(random.Random):
        def random(self) -> float:
            return 0.0

        def lognormvariate(self, mu: float = 0.0, sigma: float = 1.0) -> float:
            return 1.0

    monkeypatch.setattr(simulation, "random", SimpleNamespace(Random=Zeros))
    assert simulate(cells(5), 2, failure_rate=0.0, broken=0.0).built == 5
    assert simulate(cells(5), 2, failure_rate=0.0, broken=0.001).unbuilt == 5
