"""Rekindle under a Windows Python (the official embeddable CPython, run by wine): tests/windows, and unit tests.

``.ci/prepare/windows.sh`` unpacks it. The short run takes the verbs and the paths; REKINDLE_LONG=1 runs the unit tests
of the rooms that have something to do with Windows, too. docs/windows.md has the counts.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
PYTHON = CACHE / "windows" / "python" / "python.exe"
LONG = pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="minutes under wine: REKINDLE_LONG=1")
pytestmark = [
    pytest.mark.integration,
    needs.tool("wine"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="wine runs x64 programs on x86_64 only"),
    pytest.mark.skipif(not PYTHON.exists(), reason="no Windows Python (.ci/prepare/windows.sh)"),
]
# Rooms whose unit tests run there; what needs POSIX (shells, signals, links) skips or is left out, by name.
ROOMS = {
    "export": ("test_a_real_shell_agrees", "test_sh_is_executable"),
    "doctor": (),
    "formats": (),
}


def windows(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")


def run_tests(tmp_path: Path, *arguments: str, limit: int) -> tuple[int, str]:
    env = {
        **{name: os.environ[name] for name in ("HOME", "PATH", "REKINDLE_LONG") if name in os.environ},
        "WINEPREFIX": str(CACHE / "wine"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=",
        "PYTHONPATH": ";".join(map(windows, (ROOT / "src", CACHE / "windows" / "packages", ROOT / "tests"))),
        "PYTHONPYCACHEPREFIX": windows(CACHE / "windows" / "compiled"), "PYTHONUTF8": "0",
        # Without it wine cannot name a file with an umlaut.
        "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    command = ["wine", str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp"]
    # Wine's services outlive the program and would keep a pipe open, so they are started before; and Python does not
    # start on a plain file as its output there.
    subprocess.run(["wine", "cmd", "/c", "exit 0"], env=env, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120)  # fmt: skip
    done = subprocess.run(
        [*command, windows(tmp_path / "t"), *arguments],
        cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
    )  # fmt: skip
    return done.returncode, done.stdout.decode("utf-8", "replace")


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
