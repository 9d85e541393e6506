"""Turns a tree's CUDA sources into HIP with the tree's own ``tools/amd_build/build_amd.py``, as a step of its own.

What stood before is committed and tagged ``rekindle-patched``, the result ``rekindle-hipified``: the difference
is one git command, and ``undo`` goes back. A run that was cut short is cleaned up by the next one.
"""

import os
import sys
from pathlib import Path

import msgspec

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.git import Git
from rekindle.host.process import run_long
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SourceTree
from rekindle.source import history, journal
from rekindle.source.patches import git_line, status
from rekindle.source.paths import plain_files
from rekindle.source.tree import find_submodules

SCRIPT = "tools/amd_build/build_amd.py"
_SKIPPED = frozenset({".git", journal.FOLDER, "build", "__pycache__"})


def hipify(root: Path, *, python: str | None = None, progress: Progress | None = None) -> SourceTree:
    """Hipify once; a tree that is hipified already stays as it is."""
    root = root.resolve()
    listener = progress or Silent()
    tree = status(root)
    if not (root / SCRIPT).is_file():
        raise BadInput(f"{root} has no {SCRIPT}, so it cannot be hipified", remedy="give a torch tree of 1.0 or later")
    if tree.hipified:
        return _shown(tree)
    with journal.locked(root):
        git = history.open_history(root)
        mark = journal.folder(root) / "hipify.before"
        if mark.is_file():
            # One that was cut short: changed files back, new ones away.
            _reset(git)
            for path in _snapshot(root).keys() - set(mark.read_text(encoding="utf-8").splitlines()):
                (root / path).unlink()
            mark.unlink()
        ours = {file.path for file in journal.read_record(root).files}
        if foreign := [path for path in git.dirty() if path not in ours]:
            message = f"{foreign[0]} has uncommitted changes that are not ours; hipify would bury them"
            raise StageFailed(message, remedy="commit or undo them first")
        history.stage(git, _own_paths(root, ours))
        history.commit(git, f"rekindle: {len(tree.patches)} patches")
        git.tag(history.PATCHED_TAG, force=True)
        before = _snapshot(root)
        write_atomically(mark, "\n".join(before) + "\n")
        listener.stage("hipify", f"{len(before)} files")
        _run(root, python or sys.executable, listener)
        after = _snapshot(root)
        changed = {path for path, stamp in after.items() if before.get(path) != stamp} | (set(before) - set(after))
        own = _own_paths(root, changed)
        history.stage(git, own)
        history.commit(git, f"rekindle: hipify ({len(changed)} files)")
        git.tag(history.HIPIFIED_TAG, force=True)
        record = journal.read_record(root)
        journal.write_record(root, msgspec.structs.replace(record, hipified=True))
        mark.unlink()
    inner = changed - own
    notes = (f"{len(inner)} of them lie in submodules and are in no commit of this tree",) if inner else ()
    return msgspec.structs.replace(_shown(status(root)), changed=tuple(sorted(changed)), notes=notes)


def undo(root: Path) -> SourceTree:
    """Back to the tree before hipify: our patches are in the working tree, nothing of HIP is."""
    root = root.resolve()
    with journal.locked(root):
        record = journal.read_record(root)
        git = history.open_history(root)
        if not record.hipified or not history.has_tag(git, history.PATCHED_TAG):
            raise BadInput(f"{root} was not hipified by us")
        if later := git.run("rev-list", f"{history.HIPIFIED_TAG}..HEAD").split():
            remedy = "keep them first: rekindle source save-patches"
            raise StageFailed(f"{len(later)} commits of yours lie on top of hipify", remedy=remedy)
        _reset(git)
        for tag in (history.PATCHED_TAG, history.HIPIFIED_TAG):
            git.run("tag", "--delete", tag)
        journal.write_record(root, msgspec.structs.replace(record, hipified=False))
    return status(root)


def _shown(tree: SourceTree) -> SourceTree:
    tags = (history.PATCHED_TAG, history.HIPIFIED_TAG)
    command = git_line(history.open_history(Path(tree.root)), "diff", "--stat", *tags)
    return msgspec.structs.replace(tree, diff_command=command)


def _run(root: Path, python: str, progress: Progress) -> None:
    last_words = "no output"

    def on_line(line: str) -> None:
        nonlocal last_words
        last_words = line.strip() or last_words
        progress.step(0, None, last_words)

    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    code = run_long([python, str(root / SCRIPT)], cwd=root, env=environment, on_line=on_line)
    if code:
        remedy = "the same command cleans up and begins again"
        raise StageFailed(f"{SCRIPT} ended with exit code {code}: {last_words}", remedy=remedy)


def _reset(git: Git) -> None:
    git.run("reset", "--hard", "--quiet", history.PATCHED_TAG, timeout=600.0)
    # The commit of our patches goes, its content stays: patches live in the working tree.
    git.run("reset", "--mixed", "--quiet", f"{history.PATCHED_TAG}~1", timeout=600.0)


def _snapshot(root: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file; enough to see what a run touched."""
    stats = {path: path.stat() for path in plain_files(root, _SKIPPED.__contains__) if path.name != ".git"}
    return {path.relative_to(root).as_posix(): (stat.st_size, stat.st_mtime_ns) for path, stat in stats.items()}


def _own_paths(root: Path, paths: set[str]) -> set[str]:
    """Those that belong to this repository; a submodule's files belong to its own."""
    inner = tuple(f"{path}/" for path in find_submodules(root) if (root / path / ".git").exists())
    return {path for path in paths if not path.startswith(inner)}
