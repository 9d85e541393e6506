"""Where a virtual environment keeps its programs (``bin`` or, on Windows, ``Scripts``), and the usual Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rekindle.host.protocol import Host


def bin_of(folder: Path, *, windows: bool | None = None) -> Path:
    """The environment's programs; ``windows`` says for which system (default: this one)."""
    return folder / ("Scripts" if _is_windows(windows) else "bin")


def python_of(folder: Path, *, windows: bool | None = None) -> Path:
    """The environment's interpreter."""
    return bin_of(folder, windows=windows) / ("python.exe" if _is_windows(windows) else "python")


def _is_windows(given: bool | None) -> bool:
    return os.name == "nt" if given is None else given


def usual_python(host: Host) -> str | None:
    """The Python people mean where they name none: the one on PATH; on Windows, where ``python3`` is often only a door
    to the shop and the installer leaves PATH alone, else the one that runs us."""
    names = ("python",) if host.system == "windows" else ("python3", "python")
    found = [path for path in map(host.which, names) if path and "WindowsApps" not in path]
    if host.system == "windows":
        found.append(sys.executable)
    return found[0] if found else None
