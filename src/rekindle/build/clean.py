"""Removes a build tree, all of it and nothing else: read-only files, locked files, installed files.

The tree is first renamed, so a kill in the middle never leaves half a tree that looks whole. What CMake had
installed into the source tree (its own list says what) goes too: a stale library of an older configuration
would otherwise end up in the next wheel.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any

from rekindle.build.state import FILE_NAME
from rekindle.errors import BadInput

TRASH = ".rekindle-trash-"
_OURS = (FILE_NAME, "CMakeCache.txt", "build.ninja", "temp", "lib", "rekindle-settings.cmake", ".ninja_log")
ATTEMPTS = 6


def clean(build_tree: Path) -> bool:
    """Remove ``build_tree``; False where there was none. Refuses what does not look like a build tree."""
    root = build_tree.parent
    for old in root.glob(f"{TRASH}*"):
        _remove(old)
    if build_tree.is_symlink():
        raise BadInput(
            f"{build_tree} is a link to {os.readlink(build_tree)}, so --clean does not touch it",  # noqa: PTH115
            remedy="remove the link yourself",
        )
    if not build_tree.is_dir() or not any(build_tree.iterdir()):
        return False
    if not any((build_tree / name).exists() or list(build_tree.glob(f"{name}.*")) for name in _OURS):
        raise BadInput(
            f"{build_tree} does not look like a build tree, so --clean does not touch it",
            remedy="remove it yourself if it is one",
        )
    installed = _installed(build_tree, root)
    trash = root / f"{TRASH}{os.getpid()}"
    _rename(build_tree, trash)
    for path in installed:
        with contextlib.suppress(OSError):
            path.unlink()
    _remove(trash)
    return True


def _installed(build_tree: Path, root: Path) -> list[Path]:
    """Files CMake installed inside the source tree; nothing outside it, whatever the list says."""
    try:
        lines = (build_tree / "install_manifest.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    inside = root.resolve()
    found = []
    for line in lines:
        path = Path(line.strip())
        if path.is_absolute() and inside in path.parent.resolve().parents and not path.is_dir():
            found.append(path)
    return found


def _rename(source: Path, target: Path) -> None:
    """Windows refuses while somebody holds a file inside: wait a little, then say who it is."""
    for attempt in range(ATTEMPTS):
        try:
            source.rename(target)
            return
        except OSError as error:
            if attempt == ATTEMPTS - 1:
                holders = _holders(source)
                raise BadInput(
                    f"cannot remove {source}: {error.strerror or error}"
                    + (f"; held by {', '.join(holders)}" if holders else ""),
                    remedy="close what uses it and run the same command again",
                ) from error
            time.sleep(0.2 * 2**attempt)


def _remove(path: Path) -> None:
    def writable_then_again(function: Any, name: str, _error: Any) -> None:
        with contextlib.suppress(OSError):
            parent = Path(name).parent
            parent.chmod(parent.stat().st_mode | stat.S_IRWXU)
            if not Path(name).is_symlink():
                Path(name).chmod(stat.S_IRWXU)
            function(name)

    if path.is_symlink():
        path.unlink()
        return
    for _ in range(2):
        shutil.rmtree(path, onerror=writable_then_again)
        if not path.exists():
            return
    if sys.platform == "win32":
        _delete_on_reboot(path)


def _delete_on_reboot(path: Path) -> None:
    """The last resort: Windows removes it when it starts next. The name is trash, so nobody mistakes it."""
    import ctypes

    move = getattr(ctypes, "WinDLL")("kernel32").MoveFileExW  # noqa: B009
    for folder, _, files in os.walk(path, topdown=False):
        for name in files:
            move(str(Path(folder) / name), None, 4)
        move(folder, None, 4)


def _holders(path: Path) -> list[str]:
    import psutil

    found = []
    for process in psutil.process_iter(["pid", "name"]):
        with contextlib.suppress(psutil.Error, OSError):
            if any(Path(each.path).is_relative_to(path) for each in process.open_files()):
                found.append(f"{process.info['name']} (process {process.info['pid']})")
    return found[:5]
