"""Verdicts and sums that documents give about themselves, just inside and just outside."""

from __future__ import annotations

import typing

import pytest

from rekindle.model.adopt import Adoption, AdoptionState
from rekindle.model.farm import FarmCompilation, FarmCounts
from rekindle.model.graft import GraftReport, UnitOutcome, UnitProof
from rekindle.model.matrix import Attempt, CellState
from rekindle.model.plan import Plan
from rekindle.model.progress import GIANT_SECONDS, JobView
from rekindle.model.verify import VerifyReport


@pytest.mark.parametrize(("verdict", "good"), [("proven", True), ("not-proven", False), ("failed", False)])
def test_only_a_proven_torch_is_good(verdict: typing.Any, good: bool) -> None:
    assert VerifyReport(verdict=verdict).good is good
    assert VerifyReport().good is False, "a report without a verdict proves nothing"


@pytest.mark.parametrize("state", typing.get_args(AdoptionState))
def test_an_adoption_that_is_not_proven_is_not_good(state: AdoptionState) -> None:
    assert Adoption(state=state, verdict="x").good is (state not in ("not-proven", "no"))


@pytest.mark.parametrize(
    ("fields", "backend"),
    [
        ({"cuda": "12.8"}, "cuda"),
        ({"rocm": "6.4"}, "rocm"),
        ({"variant": "xpu"}, "xpu"),
        ({"variant": "cpu"}, "cpu"),
        ({}, "cpu"),
    ],
)
def test_what_a_plan_is_for(fields: dict[str, str], backend: str) -> None:
    assert Plan(answer="build", **fields).backend == backend  # type: ignore[arg-type]


def graft(*proof: UnitProof, states: str = "") -> GraftReport:
    names: dict[str, typing.Any] = {"h": "has", "a": "added", "r": "refused"}
    units = tuple(UnitOutcome(library="x", container=n, state=names[word]) for n, word in enumerate(states))
    return GraftReport(
        wheel="w", wheel_sha256="0", bytes_before=1, card="c", arch="sm_50", units=units, proof=tuple(proof)
    )


def test_units_are_counted_by_what_became_of_them() -> None:
    report = graft(states="haahar")
    assert [report.count(state) for state in ("has", "added", "refused", "planned")] == [2, 3, 1, 0]


@pytest.mark.parametrize(
    ("functions", "named", "why", "disproven"),
    [
        (3, 3, None, False),
        (3, 3, "other code", False),
        (3, 2, "names", True),
        (0, 0, "failed", True),
        (3, 2, None, False),
    ],
)
def test_a_graft_is_disproven_by_a_unit_that_failed_or_has_other_names(
    functions: int, named: int, why: str | None, disproven: bool
) -> None:
    proof = UnitProof(unit="u", arch="sm_50", functions=functions, named=named, why=why)
    assert graft(proof).disproven is disproven


def test_a_cell_says_what_its_last_attempt_said() -> None:
    assert CellState(id="x").failure is None and CellState(id="x").message == ""
    tries = (Attempt(number=1, started=0.0, failure="memory", message="a"), Attempt(number=2, started=1.0, message="b"))
    assert (
        CellState(id="x", attempts=tries[:1]).failure == "memory" and CellState(id="x", attempts=tries).failure is None
    )
    assert CellState(id="x", attempts=tries).message == "b"


def test_compilations_here_are_those_that_nobody_else_returned() -> None:
    assert FarmCounts(compiled=5, remote={"a": 2, "b": 1}).local == 2
    assert FarmCounts(compiled=2, remote={"a": 3}).local == 0
    results = ("cache hit", "cache error", "cache miss", "compile failed")
    assert [FarmCompilation(object="x", result=result).from_cache for result in results] == [True, True, False, False]


def test_a_job_is_a_giant_by_what_it_took_or_will_take() -> None:
    for seconds, giant in ((GIANT_SECONDS, True), (GIANT_SECONDS - 0.1, False)):
        assert JobView(name="x", seconds=seconds).is_giant is giant
        assert JobView(name="x", seconds=1.0, expected=seconds).is_giant is giant
