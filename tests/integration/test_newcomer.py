"""A newcomer with an empty home and a fresh clone, who types the README's first commands and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.skipif(sys.platform == "win32", reason="the README's lines for sh")]
ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="sets up an environment from a package index: a minute")
def test_a_clone_starts_by_itself(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    kept = ("PATH", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "UV_DEFAULT_INDEX", "HTTPS_PROXY", "SSL_CERT_FILE")
    env = {name: os.environ[name] for name in kept if name in os.environ} | {"HOME": str(tmp_path / "home")}
    (tmp_path / "home").mkdir()
    for argv in (
        ["./rekindle", "version"],
        ["./rekindle", "doctor"],
        ["./rekindle", "demo", "--yes"],
        ["./rekindle", "list"],
    ):
        done = subprocess.run(argv, cwd=clone, env=env, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, (argv, done.stdout[-500:], done.stderr[-2000:])
    cleaned = subprocess.run(
        ["./rekindle", "clean", "--all", "--yes"], cwd=clone, env=env, capture_output=True, text=True
    )
    assert cleaned.returncode == 0 and "free again" in cleaned.stdout
