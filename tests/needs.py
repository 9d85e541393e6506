"""How an integration test says what it needs; the summary then shows what was skipped and why."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import pytest


def tool(*names: str) -> pytest.MarkDecorator:
    """Skip unless every program is on PATH."""
    missing = [name for name in names if shutil.which(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)} on PATH")


def posix(reason: str = "a Linux machine's paths, which are joined as this system does it") -> pytest.MarkDecorator:
    return pytest.mark.skipif(os.name != "posix", reason=reason)


def venv() -> pytest.MarkDecorator:
    """Skip where this Python cannot make environments: an embedded one of Windows brings no venv."""
    return pytest.mark.skipif(importlib.util.find_spec("venv") is None, reason="this Python has no venv")


def links() -> pytest.MarkDecorator:
    """Skip where a symbolic link cannot be made: Windows wants a right for it, and wine only says that it did."""
    return pytest.mark.skipif(not _can_link(), reason="no symbolic links here")


@functools.cache
def _can_link() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "link"
        try:
            made.symlink_to(folder, target_is_directory=True)
            return made.is_symlink() and made.is_dir()
        except (OSError, NotImplementedError):
            return False
