"""What the tests under a Windows Python share; elsewhere they are skipped."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from rekindle.cli.main import main

ONLY = pytest.mark.skipif(
    sys.platform != "win32", reason="runs under a Windows Python (tests/integration/test_windows_python.py starts it)"
)


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


def ask(capfdbinary: pytest.CaptureFixture[bytes], *argv: str) -> Said:
    """One verb, in this process."""
    capfdbinary.readouterr()
    try:
        code = main(list(argv))
    except SystemExit as end:  # argparse's --help
        code = int(end.code or 0)
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    return Said(int(code or 0), out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def start(*argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """One verb in a process of its own: for what is decided at the start (code pages, streams)."""
    import os

    return subprocess.run(
        [sys.executable, "-m", "rekindle", *argv], capture_output=True, timeout=120, env={**os.environ, **env}
    )


def long_folder(root: Path) -> Path:
    """A folder whose path has more than 300 characters."""
    return root.joinpath(*(f"deep{number}-{'x' * 40}" for number in range(7)))
