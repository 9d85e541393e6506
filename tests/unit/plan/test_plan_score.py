"""The planner against real situations: at least 95 % of those that are certain."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "plans"))

from score import answer, load_cases, misses


def test_certain_cases_are_answered_right() -> None:
    cases = [case for case in load_cases() if case.get("confidence") != "low"]
    wrong = {case["id"]: found for case in cases if (found := misses(case, answer(case["ask"])))}
    assert len(wrong) <= 0.05 * len(cases), wrong


def test_doubtful_cases_are_mostly_answered_right() -> None:
    cases = [case for case in load_cases() if case.get("confidence") == "low"]
    wrong = {case["id"]: found for case in cases if (found := misses(case, answer(case["ask"])))}
    assert len(wrong) <= 0.1 * len(cases), wrong
