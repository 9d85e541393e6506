"""A cell's attempts, one after the other: begun, ended with yes or no, lost; and how long a cluster is asked for."""

from __future__ import annotations

import re

import pytest
from matrix_mini import cell

from rekindle.matrix import ledger
from rekindle.matrix.ledger import decide, end_attempt, fail_attempt
from rekindle.matrix.run import slurm_script
from rekindle.matrix.simulate import World
from rekindle.model.matrix import Attempt, CellState

CELL = cell(1)
BEGUN = CellState(id=CELL.id, stage="running", attempts=(Attempt(number=1, started=1.0),))


@pytest.mark.parametrize(
    ("fresh", "because"), [(True, "it was cancelled"), (False, "it was cancelled; the next run builds it")]
)
def test_what_was_cancelled_waits_for_the_next_run(fresh: bool, because: str) -> None:
    answer = decide(CELL, CellState(id=CELL.id, stage="cancelled"), wheel_there=False, fresh_run=fresh)
    assert (answer.build, answer.because) == (fresh, because)


def test_an_attempt_ends_once() -> None:
    no = fail_attempt(BEGUN, "compile", "x" * 600)
    assert (no.stage, no.failure, len(no.message)) == ("failed", "compile", 500)
    again = fail_attempt(no, "memory", "later")
    assert again.failure == "compile" and again.attempts == no.attempts, "what is known of it stays"
    late = fail_attempt(end_attempt(BEGUN), "proof", "it does not compute")
    assert (late.stage, late.failure, late.message) == ("failed", "proof", "it does not compute"), "built, yet no good"
    yes = end_attempt(BEGUN)
    assert yes.failure is None and yes.attempts[-1].ended is not None
    worse = fail_attempt(ledger.begin_attempt(ledger.begin_attempt(BEGUN, jobs=1), jobs=1), "compile", "no")
    assert [(attempt.number, attempt.failure) for attempt in worse.attempts] == [
        (1, "lost"),
        (2, "lost"),
        (3, "compile"),
    ]
    third = end_attempt(ledger.begin_attempt(ledger.begin_attempt(BEGUN, jobs=1), jobs=1))
    assert [attempt.number for attempt in third.attempts] == [1, 2, 3], "what was before stays"


def test_a_cell_that_failed_before_it_began_has_one_attempt() -> None:
    no = fail_attempt(CellState(id=CELL.id), "setup", "no compiler", phase="prepare")
    assert [(attempt.number, attempt.failure) for attempt in no.attempts] == [(1, "setup")] and no.phase == "prepare"


def test_a_new_attempt_closes_the_one_whose_process_died() -> None:
    state = ledger.begin_attempt(BEGUN, jobs=4)
    assert [(attempt.number, attempt.failure) for attempt in state.attempts] == [(1, "lost"), (2, None)]
    assert state.stage == "running" and state.attempts[-1].jobs == 4
    after = ledger.begin_attempt(end_attempt(BEGUN), jobs=2)
    assert [attempt.failure for attempt in after.attempts] == [None, None], "one that ended was not lost"


@pytest.mark.parametrize(("minutes", "hours"), [(1.0, 1), (30.0, 1), (30.5, 2), (90.0, 3), (1830.0, 61)])
def test_a_cluster_is_asked_for_twice_the_estimate_and_an_hour_at_least(minutes: float, hours: int) -> None:
    text = slurm_script([cell(1, minutes=minutes)], "/x", cores=1).text
    assert re.findall(r"--time=(\d+):00:00", text) == [str(hours)]


def test_a_cluster_is_asked_for_little_where_nothing_is_known_of_the_cells() -> None:
    made = slurm_script([], "/x")
    assert made.cells == 0 and "--time=2:00:00" in made.text and "--mem=7G" in made.text


def test_a_simulated_cell_that_is_built_is_not_built_again() -> None:
    made = World([CELL], 1, failure_rate=0.0, broken=0.0, seed=1)
    assert made.decide(CELL, fresh_run=True).build and not made.done(CELL)
    made.built.add(CELL.id)
    assert not made.decide(CELL, fresh_run=True).build and made.done(CELL)
    assert made.decide(CELL, fresh_run=True).because == "already built"
    assert made.held(CELL) is False, "in a model nobody else builds"
