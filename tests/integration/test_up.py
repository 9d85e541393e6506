"""``up`` on this machine: what it would do, when it asks, and what an install that fails leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration]


def up(workspace: Path, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rekindle", "up", "--workspace", str(workspace), *more],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env={**os.environ, **env},
    )  # fmt: skip


def test_a_dry_run_plans_and_changes_nothing_else(tmp_path: Path) -> None:
    done = up(tmp_path, "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    journey = json.loads(done.stdout)
    assert journey["plan"]["answer"] in ("install", "build")
    assert not (tmp_path / "envs").exists()


def test_where_nobody_can_answer_nothing_is_done(tmp_path: Path) -> None:
    done = up(tmp_path)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert not (tmp_path / "envs").exists()


def test_a_failed_install_says_why_and_the_next_run_begins_there_again(tmp_path: Path) -> None:
    nowhere = (tmp_path / "nothing").as_uri()
    major, minor = sys.version_info[:2]
    for _ in range(2):
        done = up(
            tmp_path / "Werk Bank", "--yes", "--python", sys.executable, "--torch-only", "--index", nowhere,
            PIP_CONFIG_FILE=os.devnull, PIP_FIND_LINKS="", PIP_EXTRA_INDEX_URL="",
        )  # fmt: skip
        assert done.returncode == 1, (major, minor, done.stderr)
        assert "has no torch" in done.stderr and "→" in done.stderr and "Traceback" not in done.stderr


def test_a_python_that_does_not_run_is_one_line(tmp_path: Path) -> None:
    done = up(tmp_path, "--yes", "--python", "/nowhere/python")
    assert done.returncode == 2
    assert "no Python that runs" in done.stderr
