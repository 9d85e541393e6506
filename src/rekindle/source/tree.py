"""Recognises a source tree: which project, which version, with git or without."""

from __future__ import annotations

import re
from pathlib import Path

from rekindle.errors import BadInput

# project -> files that together no other project has
MARKS: dict[str, tuple[str, ...]] = {
    "torch": ("version.txt", "torch/__init__.py", "c10/CMakeLists.txt"),
    "torchvision": ("version.txt", "setup.py", "torchvision/__init__.py"),
    "torchaudio": ("version.txt", "setup.py", "src/torchaudio/__init__.py"),
    "spark": ("version.txt", "setup.py", "spark/__init__.py"),
}
_OLD_MARKS = {"torchaudio": ("version.txt", "setup.py", "torchaudio/__init__.py")}


def find_project(root: Path) -> str | None:
    for marks in (MARKS, _OLD_MARKS):
        for project, files in marks.items():
            if all((root / file).is_file() for file in files):
                return project
    return None


def recognise(root: Path) -> tuple[str, str]:
    """Project and release of a tree, or a refusal that says what is not there.

    ``version.txt`` of a release tag says ``1.13.0a0`` also in 1.13.1, so only its first two numbers are sure.
    """
    if not root.is_dir():
        raise BadInput(f"{root} is not a directory", remedy="rekindle source fetch --help")
    project = find_project(root)
    if project is None:
        raise BadInput(
            f"{root} is not a source tree of {', '.join(MARKS)}: it lacks {_nearest_lack(root)}",
            remedy="give the top directory of the tree, or get one with 'rekindle source fetch'",
        )
    return project, read_version(root)


def read_version(root: Path) -> str:
    text = (root / "version.txt").read_text(encoding="utf-8", errors="replace").strip()[:64]
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text).base_version
    except InvalidVersion as error:
        raise BadInput(f"{root / 'version.txt'} says {text!r}, which is no version") from error


def exact_version(version: str, commit_tag: str | None) -> str:
    """The release a git tag names (v1.13.1), where there is one; else what version.txt says."""
    match = re.fullmatch(r"v?(\d+\.\d+\.\d+)(?:-rc\d+)?", commit_tag or "")
    return match[1] if match else version


def _nearest_lack(root: Path) -> str:
    lacks = [[file for file in files if not (root / file).is_file()] for files in MARKS.values()]
    return min(lacks, key=len)[0]
