"""Where a virtual environment keeps its programs: ``bin`` or, on Windows, ``Scripts``."""

from __future__ import annotations

import os
from pathlib import Path


def bin_of(folder: Path, *, windows: bool | None = None) -> Path:
    """The environment's programs; ``windows`` says for which system (default: this one)."""
    return folder / ("Scripts" if _is_windows(windows) else "bin")


def python_of(folder: Path, *, windows: bool | None = None) -> Path:
    """The environment's interpreter."""
    return bin_of(folder, windows=windows) / ("python.exe" if _is_windows(windows) else "python")


def _is_windows(given: bool | None) -> bool:
    return os.name == "nt" if given is None else given
