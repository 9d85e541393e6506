"""Paths inside a tree: a patch, an archive or a submodule may never reach out of the tree it belongs to."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

from rekindle.errors import BadInput


def check_relative(path: str, *, origin: str, git: bool = False) -> None:
    """Refuse what is absolute, climbs, would mean something else on Windows, or (unless ``git``) hides in ``.git``."""
    parts = PurePosixPath(path).parts
    windows = PureWindowsPath(path)
    if (
        not parts
        or path.startswith("/")
        or windows.drive
        or windows.root
        or "\\" in path
        or ":" in path
        or any(part in ("..", ".") or not part for part in path.split("/"))
        or any(part.lower() in ((".rekindle",) if git else (".git", ".rekindle")) for part in parts)
        or any(ord(letter) < 32 for letter in path)
    ):
        raise BadInput(f"{origin} names {path!r}, which is not a plain path inside the tree; nothing was changed")


def inside(root: Path, path: str, *, origin: str) -> Path:
    """The file a relative path means; refused where a symbolic link leads away or stands in its place."""
    check_relative(path, origin=origin)
    here = root
    for part in PurePosixPath(path).parts:
        here = here / part
        if here.is_symlink():
            raise BadInput(
                f"{origin} would write through the symbolic link {here.relative_to(root)}; nothing was changed"
            )
    return here
