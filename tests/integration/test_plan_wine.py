"""A plan's lines for cmd, run by a real cmd (wine's)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import needs
from rekindle.model.plan import HERE, Step
from rekindle.scripts.quoting import spell

pytestmark = [pytest.mark.integration, needs.tool("wine"), pytest.mark.flaky(reruns=1)]
PREFIX = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci" / "wine"
SETTINGS = Step(kind="write", folder="x.cmake", argv=('set(A OFF CACHE STRING "from the plan" FORCE)', "set(B 1)"))


def test_cmd_writes_and_sets_what_the_steps_say(tmp_path: Path) -> None:
    lines = spell([Step(kind="set", env={"A": "1;2 <3", "P": f"{HERE}/x"}), SETTINGS], "cmd")
    script = tmp_path / "t.bat"
    script.write_bytes(("@echo off\r\n" + "\r\n".join((*lines, "set A", "set P")) + "\r\n").encode("ascii"))
    PREFIX.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "WINEPREFIX": str(PREFIX), "WINEDEBUG": "-all"}
    done = subprocess.run(["wine", "cmd", "/c", "t.bat"], capture_output=True, cwd=tmp_path, timeout=240, env=env)
    said = done.stdout.decode("ascii", "replace").splitlines()
    assert "A=1;2 <3" in said, done
    place = next(line for line in said if line.startswith("P="))
    assert place.endswith("/x") and "\\" not in place
    assert (tmp_path / "x.cmake").read_text("ascii").splitlines() == list(SETTINGS.argv)
