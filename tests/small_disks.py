"""A disk of its own for tests that fill one up, kept in memory."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk_at(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("needs the right to mount a small disk (root)")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
