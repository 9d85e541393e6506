"""Machines of every family, judged by public sources before the planner was asked: at least 97 % must be right."""

from __future__ import annotations

import sys
from pathlib import Path

PLANS = Path(__file__).parents[2] / "plans"
sys.path.insert(0, str(PLANS))

from score import answer, load_cases, misses  # noqa: E402


def test_machines_of_every_family_are_answered_right() -> None:
    cases = load_cases(PLANS / "reach.jsonl")
    wrong = {case["id"]: found for case in cases if (found := misses(case, answer(case["ask"], by_name=True)))}
    assert len(cases) >= 150 and len(wrong) <= 0.03 * len(cases), wrong


def test_every_expectation_says_something_and_has_a_source() -> None:
    for case in load_cases(PLANS / "reach.jsonl"):
        assert case["url"] and case["why"] and any(value not in (None, [], {}) for value in case["expect"].values())
