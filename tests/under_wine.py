"""The Windows Python that ``.ci/prepare/windows.sh`` unpacks, run by wine: marks, environment, one way to start it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
PYTHON = CACHE / "windows" / "python" / "python.exe"


def find_wine(machine: str, cache: Path = CACHE) -> tuple[str, str]:
    """The program that runs x64 Windows programs here, or nothing and the reason."""
    if machine == "x86_64":
        return (shutil.which("wine") or "", "needs wine on PATH")
    if machine != "aarch64":
        return "", f"wine runs x64 programs on x86_64 and, with box64, on aarch64; this is {machine}"
    launcher, why = cache / "box64" / "wine", cache / "box64" / "why"
    if os.access(launcher, os.X_OK):
        return str(launcher), ""
    told = why.read_text(encoding="utf-8").strip() if why.is_file() else ".ci/prepare/windows.sh was not run"
    return "", f"no wine with box64: {told}"


WINE, REASON = find_wine(platform.machine())
# The machine's own wine on aarch64 makes a prefix that x64 programs cannot use.
PREFIX = CACHE / "wine" if platform.machine() == "x86_64" else CACHE / "box64" / "prefix"
MARKS = [
    pytest.mark.integration,
    pytest.mark.skipif(not WINE, reason=REASON),
    pytest.mark.skipif(not PYTHON.exists(), reason="no Windows Python (.ci/prepare/windows.sh)"),
    pytest.mark.skipif(
        platform.machine() != "x86_64" and not os.environ.get("REKINDLE_LONG"),
        reason="minutes by box64: REKINDLE_LONG=1",
    ),
]


def windows(path: Path) -> str:
    return "Z:" + str(path).replace("/", "\\")


def run_python(*arguments: str, limit: int, **more: str) -> tuple[int, str]:
    """Exit code and everything it said. The source tree and our dependencies are on its path."""
    env = {
        **{name: os.environ[name] for name in ("HOME", "PATH", "REKINDLE_LONG") if name in os.environ},
        "WINEPREFIX": str(PREFIX), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml=",
        "PYTHONPATH": ";".join(map(windows, (ROOT / "src", CACHE / "windows" / "packages", ROOT / "tests"))),
        "PYTHONPYCACHEPREFIX": windows(CACHE / "windows" / "compiled"), "PYTHONUTF8": "0",
        # Without it wine cannot name a file with an umlaut.
        "LC_ALL": "C.UTF-8",
        **more,
    }  # fmt: skip
    # Wine's services outlive the program and would keep a pipe open, so they are started before; and Python does not
    # start on a plain file as its output there.
    subprocess.run([WINE, "cmd", "/c", "exit 0"], env=env, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120)  # fmt: skip
    done = subprocess.run(
        [WINE, str(PYTHON), *arguments],
        cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit,
    )  # fmt: skip
    return done.returncode, done.stdout.decode("utf-8", "replace")
