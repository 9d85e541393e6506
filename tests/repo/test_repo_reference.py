"""The generated reference says what --help says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.version_info[:2] >= (3, 13), reason="argparse words its help differently from Python 3.13 on")
def test_the_reference_is_fresh() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/make_reference.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
