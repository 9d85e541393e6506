"""Paths inside a tree: a patch, an archive or a submodule may never reach out of the tree it belongs to."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from rekindle.errors import BadInput
from rekindle.host.files import is_git_name, is_reserved_name

MAX_PATH_CHARACTERS = 4096


def check_relative(path: str, *, origin: str, anywhere: bool = True) -> None:
    """Refuse what is absolute, climbs, would mean something else on Windows, or hides in ``.git``. ``anywhere`` is
    False for what is only ever unpacked here: real trees have names that Windows reserves."""
    parts = PurePosixPath(path).parts
    windows = PureWindowsPath(path)
    if (
        not parts
        or len(path) > MAX_PATH_CHARACTERS
        or path.startswith("/")
        or windows.drive
        or windows.root
        or "\\" in path
        or ":" in path
        or any(part in ("..", ".") or not part for part in path.split("/"))
        or any(is_git_name(part) or part.rstrip(" .").lower() == ".rekindle" for part in parts)
        or (anywhere and any(map(is_reserved_name, parts)))
        or any(ord(letter) < 32 or ord(letter) == 127 for letter in path)
    ):
        raise BadInput(f"{origin} names {path!r}, which is not a plain path inside the tree; nothing was changed")


def plain_files(root: Path, skips: Callable[[str], bool]) -> Iterator[Path]:
    """Every file below ``root`` that is no link, by name; not those in folders whose name ``skips`` says yes to."""
    stack = _listing(root)  # no recursion: a stranger's tree may be deep
    while stack:
        entry = stack.pop()
        if entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False) and not skips(entry.name):
            stack += _listing(entry.path)


def _listing(folder: Path | str) -> list[os.DirEntry[str]]:
    """What lies in it, the last name first; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name, reverse=True)
    except OSError:
        return []


def inside(root: Path, path: str, *, origin: str) -> Path:
    """The file a relative path means; refused where a symbolic link leads away or stands in its place."""
    check_relative(path, origin=origin)
    here = root
    for part in PurePosixPath(path).parts:
        here = here / part
        if here.is_symlink():
            link = here.relative_to(root)
            raise BadInput(f"{origin} would write through the symbolic link {link}; nothing was changed")
    return here
