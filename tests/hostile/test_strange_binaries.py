"""Hostile libraries through ``inspect``: read or refused within five seconds of processor time, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import binaries_of_strangers as strange
import pytest
from canary import limited


@pytest.mark.parametrize("kind", strange.KINDS)
def test_hostile_binaries_cost_little(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("x.dll" if kind.startswith("PE") else "x.so")
    path.write_bytes(strange.KINDS[kind]())
    done = limited("inspect", str(path), "-q")
    assert done.returncode in (0, 1, 2), (done.returncode, done.stderr[-400:])
    for words in ("Traceback", "bug in rekindle", "not enough memory"):
        assert words not in done.stderr, done.stderr[-400:]
