"""A digest that stands for a tree's content, cheap enough to be taken every time.

With git: the commit and every uncommitted change of tracked files. Without: the content itself where the tree is
small, else where it came from. Always: what we changed. Equal digests mean equal sources, except for untracked
files in git trees and hand edits in large trees without git, which nothing short of reading everything would see.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rekindle.host.git import Git
from rekindle.model.source import TreeRecord
from rekindle.source import journal

SMALL_FILES = 2000
SMALL_BYTES = 32 << 20
_SKIPPED = frozenset({".git", journal.FOLDER, "__pycache__", "build", "dist"})
# What a build writes into the tree is no source: counting it would make every continued build look changed.
_BUILT = (".so", ".dll", ".dylib", ".pyd", ".lib", ".a", ".pyc")


def tree_digest(root: Path, git: Git | None, record: TreeRecord, project: str, version: str) -> str:
    """SHA-256, in hexadecimal."""
    total = hashlib.sha256()

    def add(*words: str | None) -> None:
        for word in words:
            total.update((word or "").encode("utf-8", "surrogateescape") + b"\0")

    add(project, version, str(record.hipified))
    if git is not None:
        add(
            git.head(),
            git.ask(
                "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules"
            ).out,
        )
    elif not _add_content(root, total, made=f"{project}/version.py"):
        add(record.origin)
    for part in record.supply:
        add(part.path, part.way, part.origin)
    for file in sorted(record.files, key=lambda file: file.path):
        add(file.path, file.left)
    return total.hexdigest()


def _add_content(root: Path, total: hashlib._Hash, *, made: str) -> bool:
    """Hash names and contents if the tree is small; False, and nothing hashed, if it is not.

    ``made`` is the file that setup.py writes at each run (all of these projects do).
    """
    paths: list[str] = []
    size = 0
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in _SKIPPED and not name.endswith(".egg-info")]
        for name in files:
            path = Path(folder) / name
            inside = path.relative_to(root).as_posix()
            if name.startswith(".rekindle") or name.endswith(_BUILT) or inside == made:
                continue
            if path.is_symlink() or not path.is_file():
                continue
            paths.append(inside)
            size += path.stat().st_size
            if len(paths) > SMALL_FILES or size > SMALL_BYTES:
                return False
    for name in sorted(paths):
        total.update(
            name.encode("utf-8", "surrogateescape") + b"\0" + hashlib.sha256((root / name).read_bytes()).digest()
        )
    return True
