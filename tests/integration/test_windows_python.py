"""Rekindle under a Windows Python (the official embeddable CPython, run by wine): tests/windows, and unit tests.

``.ci/prepare/windows.sh`` unpacks it. The short run takes the verbs, the paths and the unit tests that ask Windows
itself something; REKINDLE_LONG=1 runs the unit tests of every room, too. docs/windows.md has the counts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from under_wine import MARKS, ROOT, run_python, windows

LONG = pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="minutes under wine: REKINDLE_LONG=1")
pytestmark = MARKS
ROOMS = sorted(path.name for path in (ROOT / "tests/unit").iterdir() if any(path.glob("test_*.py")))
# Job objects, semaphores, command lines, long-running programs: what only Windows' own calls can answer.
OF_WINDOWS = ("host/test_process.py", "host/test_host_command.py", "host/test_jobserver.py", "scripts/test_paste.py")


def run_tests(tmp_path: Path, *arguments: str, limit: int) -> tuple[int, str]:
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", windows(tmp_path / "t"))
    return run_python(*options, *arguments, limit=limit)


def passed(text: str) -> int:
    found = re.search(r"(\d+) passed", text)
    return int(found[1]) if found else 0


def test_verbs_and_paths_under_a_windows_python(tmp_path: Path) -> None:
    code, text = run_tests(tmp_path, "tests/windows", limit=900)
    assert code == 0, text[-6000:]
    assert passed(text) >= 27, text[-2000:]


def test_what_asks_windows_itself(tmp_path: Path) -> None:
    code, text = run_tests(tmp_path, *(f"tests/unit/{name}" for name in OF_WINDOWS), limit=300)
    assert code == 0, text[-6000:]
    assert passed(text) >= 30, text[-2000:]


@LONG
@pytest.mark.parametrize("room", ROOMS)
def test_unit_tests_of_a_room_under_a_windows_python(room: str, tmp_path: Path) -> None:
    code, text = run_tests(tmp_path, f"tests/unit/{room}", limit=1200)
    assert code == 0, text[-6000:]
    assert passed(text), text[-2000:]
