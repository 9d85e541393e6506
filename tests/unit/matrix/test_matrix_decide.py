"""Shall it be built: every answer with its reason, every class of failure with its own patience."""

from __future__ import annotations

import pytest
from matrix_mini import cell

from rekindle.explain.rule import load_rules
from rekindle.matrix.ledger import FAILURES, classify, decide
from rekindle.model.matrix import Attempt, CellState, FailureClass, Stage

CELL = cell(1)


def state(stage: Stage = "waiting", *failures: FailureClass | None) -> CellState:
    attempts = tuple(Attempt(number=n + 1, started=1.0, failure=f, message="m") for n, f in enumerate(failures))
    return CellState(id=CELL.id, stage=stage, attempts=attempts)


def test_never_built_is_built() -> None:
    assert decide(CELL, state(), wheel_there=False, fresh_run=True).build


@pytest.mark.parametrize("stage", ["built", "proven"])
def test_done_stays_done_while_its_wheel_is_there(stage: Stage) -> None:
    assert not decide(CELL, state(stage, None), wheel_there=True, fresh_run=True).build
    gone = decide(CELL, state(stage, None), wheel_there=False, fresh_run=True)
    assert gone.build
    assert "gone" in gone.because


def test_a_target_has_no_wheel_to_lose() -> None:
    only = cell(2, target="c10")
    assert not decide(only, state("built", None), wheel_there=False, fresh_run=True).build


@pytest.mark.parametrize("kind", sorted(FAILURES))
def test_each_class_is_tried_as_often_as_it_may(kind: FailureClass) -> None:
    limit = FAILURES[kind].tries
    before = (
        decide(CELL, state("failed", *[kind] * (limit - 1)), wheel_there=False, fresh_run=False) if limit > 1 else None
    )
    if before is not None:
        assert before.build
        assert f"try {limit} of {limit}" in before.because
    assert not decide(CELL, state("failed", *[kind] * limit), wheel_there=False, fresh_run=False).build


@pytest.mark.parametrize(
    ("kind", "again"), [("lost", True), ("disk", True), ("memory", True), ("compile", False), ("proof", False)]
)
def test_a_new_run_forgives_the_world_but_not_the_source(kind: FailureClass, again: bool) -> None:
    worn = state("failed", *[kind] * FAILURES[kind].tries)
    assert decide(CELL, worn, wheel_there=False, fresh_run=True).build is again


@pytest.mark.parametrize("kind", ["compile", "proof", "setup", "bug", "disk"])
def test_what_would_fail_again_is_tried_once_in_a_run(kind: FailureClass) -> None:
    assert not decide(CELL, state("failed", kind), wheel_there=False, fresh_run=False).build


def test_a_compile_error_is_repeated_in_the_reason() -> None:
    assert "m" in decide(CELL, state("failed", "compile"), wheel_there=False, fresh_run=True).because


def test_memory_halves_the_jobs_each_time() -> None:
    memory: FailureClass = "memory"
    divisors = [
        decide(CELL, state("failed", *[memory] * n), wheel_there=False, fresh_run=True).jobs_divisor
        for n in (1, 2, 3, 4, 5)
    ]
    assert divisors == [2, 4, 8, 16, 16]


def test_other_failures_keep_their_jobs() -> None:
    assert decide(CELL, state("failed", "lost"), wheel_there=False, fresh_run=False).jobs_divisor == 1


def test_a_running_cell_nobody_holds_continues() -> None:
    found = decide(CELL, state("running", None), wheel_there=False, fresh_run=False)
    assert found.build
    assert "died" in found.because


def test_cancelled_waits_for_the_next_run() -> None:
    assert not decide(CELL, state("cancelled", None), wheel_there=False, fresh_run=False).build
    assert decide(CELL, state("cancelled", None), wheel_there=False, fresh_run=True).build


def test_force_builds_what_is_done() -> None:
    assert decide(CELL, state("proven", None), wheel_there=True, fresh_run=True, force=True).build


@pytest.mark.parametrize(
    ("message", "names", "kind"),
    [
        ("ninja ended with exit code 1", ("oom-killed",), "memory"),
        ("[Errno 28] No space left on device", (), "disk"),
        ("x.cpp:1: error: y", (), "compile"),
        ("pip: Temporary failure in name resolution", (), "network"),
        ("killed for memory: a.o", (), "memory"),
    ],
)
def test_messages_have_their_class(message: str, names: tuple[str, ...], kind: FailureClass) -> None:
    assert classify(message, names) == kind


def test_what_cannot_be_prepared_is_a_class_of_its_own() -> None:
    assert classify("there is no Python 3.9", default="setup") == "setup"


def test_a_machine_without_room_is_a_full_disk() -> None:
    words = "this machine is not ready for the build: only 0.0 GiB are free where /x lies"
    assert classify(words, default="setup") == "disk"
    assert classify("this machine is not ready for the build: no compiler", default="setup") == "setup"


def test_every_diagnosis_it_waits_for_is_one_that_explain_gives() -> None:
    assert {name for rule in FAILURES.values() for name in rule.diagnoses} <= {rule.id for rule in load_rules()}
