"""Where a virtual environment keeps its programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rekindle.interpreters.environment import bin_of, python_of


def test_both_systems() -> None:
    assert python_of(Path("e"), windows=True) == Path("e/Scripts/python.exe")
    assert python_of(Path("e"), windows=False) == Path("e/bin/python")
    assert bin_of(Path("e"), windows=True) == Path("e/Scripts")


def test_this_system_as_venv_makes_it(tmp_path: Path) -> None:
    venv = pytest.importorskip("venv", reason="an embedded Python has no venv")
    venv.create(tmp_path / "e", with_pip=False, symlinks=os.name != "nt")
    assert python_of(tmp_path / "e").exists() and python_of(tmp_path / "e").parent == bin_of(tmp_path / "e")
    assert Path(sys.executable).name.startswith("python")
