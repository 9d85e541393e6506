"""How long a build will still take: each bound alone, at its edges, and against a slow count by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rekindle.build.history import Estimate, History, ObjectCosts, make_estimate
from rekindle.formats.ninja import BuildEdge


def edge(output: str, *inputs: str, rule: str = "CXX", more: tuple[str, ...] = ()) -> BuildEdge:
    return BuildEdge(rule=rule, outputs=(output, *more), inputs=inputs)


def learnt(**seconds: float) -> ObjectCosts:
    return ObjectCosts(History(objects={name.replace("__", "."): (1, value) for name, value in seconds.items()}))


NOTHING = ObjectCosts(History())


def test_seconds_are_the_objects_own_else_the_mean_of_three_else_a_guess() -> None:
    assert Estimate([], learnt(a__cpp__o=5.0), {}).seconds("a.cpp.o") == 5.0
    assert Estimate([], NOTHING, {"x.cpp.o": 3.0, "y.cpp.o": 6.0}).seconds("a.cpp.o") == 8.0
    three = Estimate([], NOTHING, {"x.cpp.o": 3.0, "y.cpp.o": 6.0, "z.cpp.o": 9.0})
    assert three.seconds("a.cpp.o") == 6.0 and three.seconds("a.cu.o") == 60.0


def test_the_first_guess_weighs_languages_as_they_cost() -> None:
    estimate = Estimate([], NOTHING, {})
    guessed = {name: estimate.seconds(name) for name in ("a.c.o", "a.cpp.o", "a.cu.o", "liba.so", "generated.h")}
    assert guessed == {"a.c.o": 1.0, "a.cpp.o": 8.0, "a.cu.o": 60.0, "liba.so": 4.0, "generated.h": 1.0}


def test_a_step_that_is_finished_twice_or_unknown_takes_nothing_away() -> None:
    estimate = Estimate([edge("a.cpp.o"), edge("b.cpp.o")], learnt(a__cpp__o=4.0, b__cpp__o=5.0), {})
    for name in ("a.cpp.o", "a.cpp.o", "unknown.cpp.o"):
        estimate.finished(name)
    assert estimate.work_left(9) == 5.0


def test_work_left_is_bounded_by_ninjas_own_count() -> None:
    estimate = Estimate([edge("a.o"), edge("b.o"), edge("c.o")], learnt(a__o=1.0, b__o=2.0, c__o=6.0), {})
    assert estimate.work_left(3) == 9.0 and estimate.work_left(99) == 9.0
    assert estimate.work_left(2) == 6.0 and estimate.work_left(0) == 0.0
    for name in "abc":
        estimate.finished(f"{name}.o")
    assert estimate.work_left(5) == 0.0 and estimate.critical_path() == 0.0


def test_what_is_done_is_not_open_and_phony_takes_no_time() -> None:
    edges = [edge("a.o"), edge("b.o", more=("b.d",)), edge("all", "a.o", "b.o", rule="phony")]
    estimate = Estimate(edges, learnt(a__o=4.0, b__o=5.0), {"b.d": 1.0})
    assert estimate.work_left(9) == 4.0
    chained = Estimate([*edges, edge("lib.so", "all")], learnt(a__o=4.0, b__o=5.0, lib__so=1.0), {})
    assert chained.critical_path() == 6.0


def test_a_real_rule_wins_over_a_phony_of_the_same_name() -> None:
    for edges in ([edge("x.o"), edge("x.o", rule="phony")], [edge("x.o", rule="phony"), edge("x.o")]):
        assert Estimate(edges, learnt(x__o=3.0), {}).work_left(9) == 3.0


def test_the_longest_chain_counts() -> None:
    edges = [edge("c.o", "b.o"), edge("b.o", "a.o"), edge("a.o"), edge("d.o", "a.o", "source.cpp"), edge("e.o")]
    estimate = Estimate(edges, learnt(a__o=1.0, b__o=2.0, c__o=4.0, d__o=5.0, e__o=6.5), {})
    assert estimate.critical_path() == 7.0
    after = Estimate(edges, learnt(a__o=1.0, b__o=2.0, c__o=4.0, d__o=5.0, e__o=6.5), {"a.o": 1.0})
    assert after.critical_path() == 6.5


def test_a_circle_ends() -> None:
    estimate = Estimate([edge("a.o", "b.o"), edge("b.o", "a.o")], learnt(a__o=1.0, b__o=2.0), {})
    assert 2.0 <= estimate.critical_path() <= 3.0


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_against_the_plain_definition(seed: int) -> None:
    dice = random.Random(seed)
    names = [f"{number}.o" for number in range(40)]
    before = {name: dice.sample(names[:number], min(number, dice.randint(0, 4))) for number, name in enumerate(names)}
    seconds = {name: (1, float(dice.randint(1, 9))) for name in names}
    done = {name: 1.0 for name in names if dice.random() < 0.2}
    edges = [edge(name, *before[name]) for name in names]
    dice.shuffle(edges)
    estimate = Estimate(edges, ObjectCosts(History(objects=seconds)), done)

    def longest(name: str) -> float:
        own = 0.0 if name in done else seconds[name][1]
        return own + max((longest(one) for one in before[name]), default=0.0)

    assert estimate.critical_path() == max((longest(name) for name in names if name not in done), default=0.0)


def test_the_chain_is_counted_anew_after_twenty_one_steps() -> None:
    edges = [edge(f"{number}.o") for number in range(30)]
    estimate = Estimate(edges, ObjectCosts(History(objects={f"{n}.o": (1, 30.0 - n) for n in range(30)})), {})
    assert estimate.critical_path() == 30.0
    for number in range(20):
        estimate.finished(f"{number}.o")
    assert estimate.critical_path() == 30.0
    estimate.finished("20.o")
    assert estimate.critical_path() == 9.0


def test_work_is_shared_by_the_jobs_but_a_chain_is_not() -> None:
    edges = [edge(f"{number}.o") for number in range(8)]
    estimate = Estimate(edges, ObjectCosts(History(objects={f"{n}.o": (1, 10.0) for n in range(8)})), {})
    assert estimate.left(jobs=4, steps_left=8) == 20.0
    assert estimate.left(jobs=100, steps_left=8) == 10.0
    assert estimate.left(jobs=0, steps_left=8) == 80.0


def paced(finished: int, each: float, elapsed: float | None, jobs: int = 1) -> float:
    """Left of ten seconds of work after ``finished`` steps of ``each`` seconds took ``elapsed``."""
    names = {f"{n}.o": (1, each) for n in range(finished)} | {"last.o": (1, 10.0)}
    estimate = Estimate([edge(name) for name in names], ObjectCosts(History(objects=names)), {})
    for number in range(finished):
        estimate.finished(f"{number}.o")
    return estimate.left(jobs=jobs, steps_left=1, elapsed=elapsed)


def test_this_runs_own_pace_counts_after_a_minute_of_usual_work() -> None:
    assert paced(6, 10.0, 120.0) == 20.0  # sixty seconds of work took twice that
    assert paced(6, 9.99, 120.0) == 10.0  # not enough seen yet
    assert paced(6, 10.0, None) == 10.0
    assert paced(6, 10.0, 0.0) == pytest.approx(0.1)  # a hot cache, but never nothing
    assert paced(6, 10.0, 60.0 * 50) == 200.0  # a busy machine, but never for ever
    assert paced(6, 20.0, 60.0, jobs=2) == 10.0
    assert paced(6, 10.0, 30.0, jobs=0) == 5.0


def test_from_a_build_tree(tmp_path: Path) -> None:
    assert make_estimate(tmp_path, NOTHING) is None
    (tmp_path / "build.ninja").write_text("build a.o: CXX a.cpp\nbuild b.o: CXX b.cpp\n")
    (tmp_path / ".ninja_log").write_text("# ninja log v5\n0\t1000\t1\ta.o\tx\n")
    estimate = make_estimate(tmp_path, learnt(a__o=3.0, b__o=5.0))
    assert estimate is not None and estimate.work_left(9) == 5.0


def test_a_first_build_knows_torchs_files_by_name() -> None:
    """Small ones come first: held against one guess for all, the rest would look as quick as they."""
    estimate = Estimate([], NOTHING, {})
    assert estimate.seconds("caffe2/RegisterCPU.cpp.o") > 4 * estimate.seconds("caffe2/Activation.cpp.o")
    assert estimate.seconds("x/Sort.cu.o") > 60 > estimate.seconds("x/AbsKernel.cu.o")
    assert estimate.seconds("x/of_no_torch.cu.o") == 60.0
    assert Estimate([], learnt(Sort__cu__o=5.0), {}).seconds("Sort.cu.o") == 5.0, "its own history counts first"
