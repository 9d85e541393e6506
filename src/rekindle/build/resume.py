"""What must be put right before an interrupted build continues.

Ninja itself redoes what it has no record of. Two things it cannot know: after a power loss an object may be
empty though the log says it is done; and files from the future (a clock that jumped) look new for ever.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

from rekindle.errors import BadInput, Interrupted
from rekindle.formats.ninja_log import latest, read_ninja_log
from rekindle.host.files import write_atomically

FUTURE_SECONDS = 120.0
MIN_FREE_BYTES = 1 << 30
# A torch build makes some 30,000 files, a companion's a few hundred.
MIN_FREE_FILES = 50
START_FREE_FILES = 300
_OF_PYTHON = re.compile(
    r"(?:FIND_PACKAGE_MESSAGE_DETAILS_)?_*(?:python|pybind11|numpy)\d?_[^:=]*:[A-Z]+=", re.IGNORECASE
)
_OUTPUTS = (".o", ".obj", ".so", ".a", ".lib", ".dll", ".gch", ".pch")
_WATCHED = ("setup.py", "CMakeLists.txt", "version.txt", "build/build.ninja", "build/CMakeCache.txt")


def remove_empty_outputs(build_tree: Path) -> list[str]:
    """Delete outputs that are recorded as made but have no content; Ninja then makes them again."""
    removed = []
    top = build_tree.resolve()
    logs = [build_tree / ".ninja_log", *build_tree.glob("temp.*/.ninja_log")]
    for path in (log.parent / output for log in logs for output in latest(read_ninja_log(log))):
        # A stranger's log may name any file; only what lies in the build tree is ours to remove.
        if path.suffix not in _OUTPUTS or not path.resolve().is_relative_to(top):
            continue
        try:
            if path.is_file() and path.stat().st_size == 0:
                path.unlink()
                removed.append(path.resolve().relative_to(top).as_posix())
        except OSError:
            continue
    return removed


def forget_python(build_tree: Path) -> int:
    """Take what CMake remembers of an interpreter out of its cache, before the tree is configured for another.

    FindPython, pybind11 and torch's own scripts keep include folders, module suffixes and install folders there
    and would use the old ones for the new Python. Returns how many entries went.
    """
    cache = build_tree / "CMakeCache.txt"
    try:
        lines = cache.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError:
        return 0
    kept: list[str] = []
    gone = 0
    for line in lines:
        if not _OF_PYTHON.match(line):
            kept.append(line)
            continue
        gone += 1
        # Its comment goes too: one with no entry after it is a parse error for CMake.
        while kept and kept[-1].startswith("//"):
            kept.pop()
    if gone:
        write_atomically(cache, "\n".join(kept).encode("utf-8", "surrogateescape"))
    return gone


def refuse_future(root: Path) -> None:
    """Ninja and CMake decide by file times; with files from the future they never finish deciding."""
    for name in _WATCHED:
        path = root / name
        if path.is_file() and (ahead := path.stat().st_mtime - time.time()) > FUTURE_SECONDS:
            raise BadInput(
                f"{path} is {ahead / 60:.0f} minutes in the future: this machine's clock has jumped back",
                remedy=f"set the clock, or 'touch {path}' if the clock is right",
            )


def free_bytes(path: Path) -> int:
    """How much more fits."""
    return shutil.disk_usage(path).free


def free_files(path: Path) -> int | None:
    """How many more files fit, whatever their size; None where the file system sets no number."""
    if not hasattr(os, "statvfs"):
        return None
    state = os.statvfs(path)
    return state.f_favail if state.f_files else None


def refuse_few_files(build_tree: Path) -> None:
    """Stop before anything starts where not even small files fit; free space was asked for with all the rest."""
    files = free_files(build_tree.parent)
    if files is not None and files < START_FREE_FILES:
        raise BadInput(
            f"only {files} more files fit on the disk of {build_tree}, however small (inodes)",
            remedy="'df -i' shows it; delete many small files, or build on another disk",
        )


def stop_before_full(build_tree: Path) -> None:
    """Called now and then while compiling: a full disk corrupts, an orderly stop does not."""
    free = free_bytes(build_tree)
    if free < MIN_FREE_BYTES:
        raise Interrupted(
            f"stopped: only {free / 2**20:.0f} MiB are left on the disk of {build_tree}",
            remedy="free some space; the same command continues",
        )
    files = free_files(build_tree)
    if files is not None and files < MIN_FREE_FILES:
        raise Interrupted(
            f"stopped: only {files} more files fit on the disk of {build_tree}, however small (inodes)",
            remedy="delete many small files ('df -i'); the same command continues",
        )
