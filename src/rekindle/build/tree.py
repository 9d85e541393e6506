"""A build tree from run to run: what it was made for, what must be put right before it continues, how it is removed.

A tree configured for one plan must not be continued with another, and the refusal names the difference. Two things
Ninja cannot know: after a power loss an object may be empty though the log says it is done; and files from the future
(a clock that jumped) look new for ever. A tree that is removed is first renamed, so that a kill never leaves half a
tree that looks whole; what CMake had installed into the source tree goes too, since a stale library would otherwise end
up in the next wheel.
"""

import contextlib
import ctypes
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rekindle.build.environment import NAMES, is_among
from rekindle.errors import BadInput, Interrupted, OtherPlan
from rekindle.formats.ninja import latest, read_ninja_log
from rekindle.host.files import rename_patiently, text_at, write_atomically
from rekindle.host.processes import name_of
from rekindle.model.document import Part, decode, encode
from rekindle.model.plan import Plan

FILE_NAME = "rekindle-state.json"
FUTURE_SECONDS = 120.0
MIN_FREE_BYTES = 1 << 30
# A torch build makes some 30,000 files, a companion's a few hundred.
MIN_FREE_FILES = 50
START_FREE_FILES = 300
# An entry with its comment: one with no entry after it is a parse error for CMake.
_OF_PYTHON = re.compile(
    r"(?mi)^(?://.*\n)*(?:FIND_PACKAGE_MESSAGE_DETAILS_)?_*(?:python|pybind11|numpy)\d?_[^:=\n]*:[A-Z]+=.*\n?"
)
_OUTPUTS = (".o", ".obj", ".so", ".a", ".lib", ".dll", ".gch", ".pch")
_WATCHED = ("setup.py", "CMakeLists.txt", "version.txt", "build/build.ninja", "build/CMakeCache.txt")
TRASH = ".rekindle-trash-"
_OURS = (FILE_NAME, "CMakeCache.txt", "build.ninja", "temp", "lib", "rekindle-settings.cmake", ".ninja_log")


class TreeState(Part, frozen=True, kw_only=True):
    """``python`` is the one configured last; ``configured`` False until configure ended well."""

    project: str
    version: str | None
    settings: dict[str, str]
    source_digest: str | None = None
    python: str | None = None
    configured: bool = False
    running: bool = False
    runs: int = 0


def settings_of(plan: Plan) -> dict[str, str]:
    """What decides the compiled code: a change in any of these makes the old tree another tree. How it is made
    (launcher, jobs, memory, a cache's own settings) is not among them, nor are patches: they change files, and Ninja
    sees by itself which files are newer."""
    assert plan.build is not None
    groups = {"env": plan.build.env, "cmake": plan.build.cmake}
    rows = ((kind, name, value) for kind, settings in groups.items() for name, value in settings.items())
    return {f"{kind} {name}": value for kind, name, value in rows if not _is_how(name)}


def _is_how(name: str) -> bool:
    return is_among(name.removeprefix("env ").removeprefix("cmake "), NAMES.how)


def load_state(build_tree: Path) -> TreeState | None:
    """The state that the tree was left in; None where there is none."""
    path = build_tree / FILE_NAME
    try:
        return decode(path.read_bytes(), TreeState, origin=str(path)) if path.is_file() else None
    except BadInput:
        # A state we cannot read is a tree we do not know.
        return TreeState(project="unknown", version=None, settings={})


def save_state(build_tree: Path, state: TreeState) -> None:
    write_atomically(build_tree / FILE_NAME, encode(state))


def differences(old: TreeState, new: TreeState) -> list[str]:
    """What makes ``new`` another tree than ``old``, in words; empty where it may be continued."""
    # Earlier states name patches among the settings.
    names = {name for name in old.settings.keys() | new.settings.keys() if not name.startswith("patch ")}
    pairs = {"project": (old.project, new.project), "version": (old.version, new.version)}
    pairs |= {name: (old.settings.get(name), new.settings.get(name)) for name in sorted(names) if not _is_how(name)}
    return [f"{name} was {was!r} and is now {now!r}" for name, (was, now) in pairs.items() if was != now]


def sources_changed(old: TreeState, new: TreeState) -> bool:
    """Were files of the tree changed since (a patch, an edit)? One given by its place has no digest to tell it by."""
    return None not in (old.source_digest, new.source_digest) and old.source_digest != new.source_digest


def refuse_other_plan(changes: Sequence[str], build_tree: Path) -> NoReturn:
    """Raise :class:`OtherPlan` naming the first differences."""
    more = f" (and {len(changes) - 3} more)" if len(changes) > 3 else ""
    remedy = "give --clean to start over, or build in another copy of the tree"
    raise OtherPlan(f"{build_tree} was made for another plan: {'; '.join(changes[:3])}{more}", remedy=remedy)


def remove_empty_outputs(build_tree: Path) -> list[str]:
    """Delete outputs that are recorded as made but have no content; Ninja then makes them again."""
    removed = []
    top = build_tree.resolve()
    logs = [build_tree / ".ninja_log", *build_tree.glob("temp.*/.ninja_log")]
    for path in (log.parent / output for log in logs for output in latest(read_ninja_log(log))):
        # A stranger's log may name any file; only what lies in the build tree is ours to remove.
        if path.suffix not in _OUTPUTS or not path.resolve().is_relative_to(top):
            continue
        with contextlib.suppress(OSError):
            if path.is_file() and path.stat().st_size == 0:
                path.unlink()
                removed.append(path.resolve().relative_to(top).as_posix())
    return removed


def forget_python(build_tree: Path) -> int:
    """Take what CMake remembers of an interpreter (FindPython's, pybind11's, torch's own folders and suffixes) out of
    its cache, before the tree is configured for another. Returns how many entries went."""
    cache = build_tree / "CMakeCache.txt"
    try:
        text, gone = _OF_PYTHON.subn("", cache.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return 0
    if gone:
        write_atomically(cache, text.encode("utf-8", "surrogateescape"))
    return gone


def refuse_future(root: Path) -> None:
    """Ninja and CMake decide by file times; with files from the future they never finish deciding."""
    for name in _WATCHED:
        path = root / name
        if path.is_file() and (ahead := path.stat().st_mtime - time.time()) > FUTURE_SECONDS:
            message = f"{path} is {ahead / 60:.0f} minutes in the future: this machine's clock has jumped back"
            raise BadInput(message, remedy=f"set the clock, or 'touch {path}' if the clock is right")


def free_files(path: Path) -> int | None:
    """How many more files fit, whatever their size; None where the file system sets no number."""
    if not hasattr(os, "statvfs"):
        return None
    state = os.statvfs(path)
    return state.f_favail if state.f_files else None


def refuse_few_files(build_tree: Path) -> None:
    """Stop before anything starts where not even small files fit; free space was asked for with all the rest."""
    if (files := free_files(build_tree.parent)) is not None and files < START_FREE_FILES:
        message = f"only {files} more files fit on the disk of {build_tree}, however small (inodes)"
        raise BadInput(message, remedy="'df -i' shows it; delete many small files, or build on another disk")


def stop_before_full(build_tree: Path) -> None:
    """Called now and then while compiling: a full disk corrupts, an orderly stop does not."""
    if (free := shutil.disk_usage(build_tree).free) < MIN_FREE_BYTES:
        remedy = "free some space; the same command continues"
        raise Interrupted(f"stopped: only {free / 2**20:.0f} MiB are left on the disk of {build_tree}", remedy=remedy)
    if (files := free_files(build_tree)) is not None and files < MIN_FREE_FILES:
        message = f"stopped: only {files} more files fit on the disk of {build_tree}, however small (inodes)"
        raise Interrupted(message, remedy="delete many small files ('df -i'); the same command continues")


def clean(build_tree: Path) -> bool:
    """Remove ``build_tree``; False where there was none. Refuses what does not look like a build tree."""
    root = build_tree.parent
    for old in root.glob(f"{TRASH}*"):
        _remove_tree(old)
    if build_tree.is_symlink():
        why = f"{build_tree} is a link to {os.readlink(build_tree)}, so --clean does not touch it"  # noqa: PTH115
        raise BadInput(why, remedy="remove the link yourself")
    if not build_tree.is_dir() or not any(build_tree.iterdir()):
        return False
    if not any((build_tree / name).exists() or list(build_tree.glob(f"{name}.*")) for name in _OURS):
        remedy = "remove it yourself if it is one"
        raise BadInput(f"{build_tree} does not look like a build tree, so --clean does not touch it", remedy=remedy)
    # Files CMake installed inside the source tree; nothing outside it, whatever the list says.
    lines = text_at(build_tree / "install_manifest.txt").splitlines()
    paths, inside = [path for line in lines if (path := Path(line.strip())).is_absolute()], root.resolve()
    installed = [path for path in paths if inside in path.parent.resolve().parents and not path.is_dir()]
    trash = root / f"{TRASH}{os.getpid()}"
    try:
        rename_patiently(build_tree, trash, 0.2)
    except OSError as error:
        holders = _holders(build_tree)
        held = f"; held by {', '.join(holders)}" if holders else ""
        message = f"cannot remove {build_tree}: {error.strerror or error}{held}"
        raise BadInput(message, remedy="close what uses it and run the same command again") from error
    for path in installed:
        with contextlib.suppress(OSError):
            path.unlink()
    _remove_tree(trash)
    return True


def _remove_tree(path: Path) -> None:
    def writable_then_again(function: Any, name: str, _error: Any) -> None:
        with contextlib.suppress(OSError):
            parent = Path(name).parent
            parent.chmod(parent.stat().st_mode | stat.S_IRWXU)
            if not Path(name).is_symlink():
                Path(name).chmod(stat.S_IRWXU)
            function(name)

    if path.is_symlink():
        path.unlink()
    for _ in range(2):
        if not path.exists():
            return
        shutil.rmtree(path, onerror=writable_then_again)
    if sys.platform == "win32":
        # The last resort: Windows removes it when it starts next. The name is trash, so nobody mistakes it.
        move = getattr(ctypes, "WinDLL")("kernel32").MoveFileExW  # noqa: B009
        for folder, _, files in os.walk(path, topdown=False):
            for name in files:
                move(str(Path(folder) / name), None, 4)
            move(folder, None, 4)


def _holders(path: Path) -> list[str]:
    import psutil

    holders = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if any(Path(each.path).is_relative_to(path) for each in process.open_files()):
                holders.append(f"{name_of(process)} (process {process.pid})")
    return holders[:5]
