"""setuptools and ninja lent to the check that compiles an extension: nothing is installed into the user's Python."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

# What ``import setuptools`` needs of its own site-packages folder.
_PARTS = ("setuptools", "pkg_resources", "_distutils_hack")


def lend_tools(folder: Path) -> dict[str, str]:
    """A folder that holds our setuptools and nothing else of ours, and where our ninja lies."""
    lent: dict[str, str] = {}
    spec = importlib.util.find_spec("setuptools")
    if spec is not None and spec.submodule_search_locations:
        home = Path(next(iter(spec.submodule_search_locations))).parent
        folder.mkdir(parents=True, exist_ok=True)
        for name in _PARTS:
            if (home / name).is_dir():
                _show(home / name, folder / name)
        lent["setuptools"] = str(folder)
    ninja = shutil.which("ninja", path=str(Path(sys.executable).parent)) or shutil.which("ninja")
    if ninja:
        lent["ninja"] = str(Path(ninja).parent)
    return lent


def _show(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source, target_is_directory=True)
    except OSError:
        # Windows lets only some users make links.
        shutil.copytree(source, target)
