"""The real PyTorch trees that .ci/prepare/source.sh fetched, as copies that cost no space."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
VERSIONS = ("1.13.1", "2.6.0")


def pristine(version: str) -> Path:
    tree = CACHE / f"pytorch-{version}"
    if not (tree / "version.txt").is_file():
        pytest.skip(f"needs the PyTorch {version} tree in {tree} (bash .ci/prepare/source.sh)")
    return tree


def copy_of(version: str, target: Path) -> Path:
    """Hard links: rekindle replaces files instead of writing into them, so the pristine tree stays as it is."""
    ignore = shutil.ignore_patterns(".rekindle")
    try:
        shutil.copytree(pristine(version), target, copy_function=os.link, symlinks=True, ignore=ignore)
    except OSError:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(pristine(version), target, symlinks=True, ignore=ignore)
    return target


def differences(tree: Path, version: str) -> list[str]:
    """Files that are not byte for byte those of the pristine tree, in either direction, modes included."""
    origin = pristine(version)
    ours, theirs = _files(tree), _files(origin)
    odd = sorted(ours ^ theirs)
    for name in ours & theirs:
        one, other = tree / name, origin / name
        if one.is_symlink() or other.is_symlink():
            same = os.readlink(one) == os.readlink(other)
        elif os.path.samefile(one, other):
            same = True
        else:
            same = one.stat().st_mode == other.stat().st_mode and one.read_bytes() == other.read_bytes()
        if not same:
            odd.append(name)
    return odd


def _files(root: Path) -> set[str]:
    found: set[str] = set()
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if name not in (".rekindle", ".git")]
        found.update(os.path.relpath(os.path.join(folder, file), root) for file in files)
    return found
