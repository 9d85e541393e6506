"""What the libraries need, what the wheel brings, and what must come from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.inspect.libraries import Library, newest
from rekindle.model.wheel import LibraryLinks, Links


def join_links(libraries: Sequence[Library]) -> Links:
    """Names are compared as the loaders do: exactly on Linux, without case on Windows."""
    brought = {name for library in libraries for name in (library.base, library.soname) if name}
    windows = any(library.format == "pe" for library in libraries)
    have = {name.lower() for name in brought} if windows else brought

    def bundled(name: str) -> bool:
        return (name.lower() if windows else name) in have

    needed = sorted({name for library in libraries for name in (*library.needed, *library.delayed)})
    return Links(
        needed=tuple(needed),
        bundled=tuple(name for name in needed if bundled(name)),
        external=tuple(name for name in needed if not bundled(name)),
        glibc=newest([library.floors["GLIBC"] for library in libraries if "GLIBC" in library.floors]),
        glibcxx=newest([library.floors["GLIBCXX"] for library in libraries if "GLIBCXX" in library.floors]),
        libraries=tuple(
            LibraryLinks(
                file=library.file,
                soname=library.soname,
                needed=library.needed + library.delayed,
                missing=tuple(name for name in library.needed if not bundled(name)),
                rpath=library.rpath,
                glibc=library.floors.get("GLIBC"),
                glibcxx=library.floors.get("GLIBCXX"),
            )
            for library in libraries
        ),
    )
