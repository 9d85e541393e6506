"""Submodules: which ones a tree should have, and which are missing. The commonest source error of all.

A missing one is an empty or absent directory, or a checkout at another commit than the tree records.
Without git the tree's own ``.gitmodules`` names them; where that is gone too (a Debian tarball), only what
``setup.py`` would look for can be told.
"""

from __future__ import annotations

import ast
import configparser
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.formats.gitmodules import read_gitmodules
from rekindle.host.git import Git
from rekindle.source.paths import check_relative

OURS = "Written by rekindle"


@dataclass(frozen=True)
class Submodule:
    path: str
    url: str | None = None


def find_submodules(root: Path) -> tuple[Submodule, ...]:
    """What ``.gitmodules`` of a tree names; a path that leads out of it is refused."""
    file = root / ".gitmodules"
    if not file.is_file():
        return ()
    try:
        named = read_gitmodules(file.read_text(encoding="utf-8", errors="replace"))
    except configparser.Error as error:
        raise BadInput(f"cannot read {file}: {str(error).splitlines()[0]}") from error
    for path in named:
        check_relative(path, origin=str(file))
    return tuple(Submodule(path, url) for path, url in sorted(named.items()))


def is_empty(folder: Path) -> bool:
    return not folder.is_dir() or not any(entry.name != ".git" for entry in folder.iterdir())


def is_ours(root: Path, path: str) -> bool:
    """A stand-in of ours, not the third party itself."""
    listing = root / path / "CMakeLists.txt"
    if not listing.is_file():
        return False
    with listing.open("rb") as file:
        return OURS.encode() in file.read(400)


def missing_submodules(root: Path) -> tuple[str, ...]:
    """Paths of submodules, nested ones too, that are not there as they should be; each with its reason."""
    git = Git(root)
    if git.present:
        return _missing_in_git(git)
    return tuple(_missing_on_disk(root, ""))


def listed_by_setup(root: Path) -> tuple[str, ...]:
    """Third-party folders torch's setup.py looks for before it starts: the list in its get_submodule_folders."""
    try:
        code = ast.parse((root / "setup.py").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ()
    names = [
        item.value
        for function in ast.walk(code)
        if isinstance(function, ast.FunctionDef) and function.name == "get_submodule_folders"
        for node in ast.walk(function)
        if isinstance(node, ast.List)
        for item in node.elts
        if isinstance(item, ast.Constant) and isinstance(item.value, str)
    ]
    return tuple(dict.fromkeys(f"third_party/{name}" for name in names))


def _missing_in_git(git: Git) -> tuple[str, ...]:
    done = git.ask("submodule", "status", "--recursive", timeout=300.0)
    missing = []
    for line in done.out.splitlines():
        # "-" not there, "+" at another commit, "U" in conflict; then the commit, the path and a description.
        sign, rest = line[:1], line[1:].split()
        if sign in ("-", "+", "U") and len(rest) >= 2:
            why = {"-": "not checked out", "+": "at another commit than recorded", "U": "has conflicts"}[sign]
            missing.append(f"{rest[1]} ({why})")
    # Git calls a submodule whose clone is there and whose files are not (a kill in between) up to date.
    known = {name.rsplit(" (", 1)[0] for name in missing}
    missing += [name for name in _missing_on_disk(git.root, "") if name.rsplit(" (", 1)[0] not in known]
    return tuple(sorted(missing))


def _missing_on_disk(root: Path, prefix: str) -> list[str]:
    named = [one.path for one in find_submodules(root)] or (list(listed_by_setup(root)) if not prefix else [])
    missing: list[str] = []
    for path in named:
        folder = root / path
        if is_empty(folder):
            missing.append(f"{prefix}{path} ({'empty' if folder.is_dir() else 'not there'})")
        else:
            missing += _missing_on_disk(folder, f"{prefix}{path}/")
    return missing
