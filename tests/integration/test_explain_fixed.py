"""Broken environments that need no index: fixed, proven and kept, or left exactly as they were."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import needs

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from broken_environments import BROKEN, Broken, repair

pytestmark = [pytest.mark.integration, needs.tool("gcc", "g++", "cmake", "ninja", "make", "git", "bash")]
OFFLINE = [case for case in BROKEN if not case.network]


@pytest.mark.parametrize("case", OFFLINE, ids=lambda case: case.name)
def test_a_broken_environment_ends_as_it_must(case: Broken, tmp_path: Path) -> None:
    report, is_good = repair(case, tmp_path)
    assert is_good, [(each.cause, each.outcome, each.shown, each.said) for each in report.attempts]


def test_thirty_ways_are_known() -> None:
    assert len(BROKEN) >= 30
    assert len({case.name for case in BROKEN}) == len(BROKEN)
