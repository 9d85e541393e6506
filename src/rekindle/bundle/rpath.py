"""Library search paths (RPATH, RUNPATH) inside a wheel: do they reach a directory, and what they should be."""

from __future__ import annotations

import posixpath

from rekindle.bundle.collect import Native


def reaches(member: str, rpath: tuple[str, ...], where: str) -> bool:
    """Is ``where`` searched for ``member`` before any directory outside the wheel?"""
    for entry in rpath:
        if not entry.startswith(("$ORIGIN", "${ORIGIN}")):
            return False
        if _inside(member, entry) == where:
            return True
    return False


def needs_new_path(member: str, native: Native, brought: set[str], where: str) -> bool:
    """Only a library that asks for something brought along, and would not find it, is changed."""
    return native.system == "linux" and bool(brought & set(native.needed)) and not reaches(member, native.rpath, where)


def new_path(member: str, rpath: tuple[str, ...], where: str) -> str:
    """The way to ``where`` first, then what was there inside the wheel; directories of the build machine go."""
    way = posixpath.relpath(where, posixpath.dirname(member) or ".")
    first = "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
    kept = [entry for entry in rpath if entry.startswith(("$ORIGIN", "${ORIGIN}")) and _inside(member, entry) != where]
    return ":".join(dict.fromkeys((first, *kept)))


def _inside(member: str, entry: str) -> str:
    rest = entry.removeprefix("${ORIGIN}").removeprefix("$ORIGIN").lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(member) or ".", rest))
