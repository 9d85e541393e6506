"""Rekindle under a Windows Python (the official embeddable CPython, run by wine): tests/windows, and unit tests.

``.ci/prepare/windows.sh`` unpacks it. The short run takes the verbs and the paths; REKINDLE_LONG=1 runs the unit tests
of the rooms that have something to do with Windows, too. docs/windows.md has the counts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from under_wine import MARKS, run_python, windows

LONG = pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="minutes under wine: REKINDLE_LONG=1")
pytestmark = MARKS
# Rooms whose unit tests run there; what needs POSIX (shells, signals, links) skips or is left out, by name.
ROOMS = {
    "export": ("test_a_real_shell_agrees",),
    "bundle": (),
    "doctor": (),
    "formats": (),
}


def run_tests(tmp_path: Path, *arguments: str, limit: int) -> tuple[int, str]:
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", windows(tmp_path / "t"))
    return run_python(*options, *arguments, limit=limit)


def passed(text: str) -> int:
    found = re.search(r"(\d+) passed", text)
    return int(found[1]) if found else 0


def test_verbs_and_paths_under_a_windows_python(tmp_path: Path) -> None:
    code, text = run_tests(tmp_path, "tests/windows", limit=300)
    assert code == 0, text[-6000:]
    assert passed(text) >= 27, text[-2000:]


@LONG
@pytest.mark.parametrize("room", ROOMS)
def test_unit_tests_of_a_room_under_a_windows_python(room: str, tmp_path: Path) -> None:
    code, text = run_tests(tmp_path, f"tests/unit/{room}", *_without(ROOMS[room]), limit=600)
    assert code == 0, text[-6000:]
    assert passed(text) > 20, text[-2000:]


def _without(names: tuple[str, ...]) -> list[str]:
    return ["-k", " and ".join(f"not {name}" for name in names)] if names else []
