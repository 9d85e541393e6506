"""What libraries need, and what of it a wheel does not bring. Only Python's library: Dockerfiles carry this along."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rekindle.formats.elf import Elf
    from rekindle.formats.pe import Pe

_NATIVE = re.compile(r"\.(?:so(?:\.[0-9A-Za-z_.]+)?|dll|pyd|exe)$|(?:^|/)bin/[^/.]+$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A library of a wheel: what it calls itself and what it needs. ``format`` is elf or pe. Of a Windows library
    ``delayed`` is loaded at the first use, and ``forwards`` are those that its exports are handed on to."""

    file: str
    format: str
    machine: str
    needed: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()
    forwards: tuple[str, ...] = ()
    soname: str | None = None
    rpath: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        return self.file.rpartition("/")[2]

    @property
    def system(self) -> str:
        return "windows" if self.format == "pe" else "linux"

    @property
    def wishes(self) -> tuple[str, ...]:
        """All that it needs, now or later."""
        return tuple(dict.fromkeys((*self.needed, *self.delayed, *self.forwards)))


def link_fields(binary: Elf | Pe) -> dict[str, Any]:
    """The fields of :class:`Linked` as the file has them; where exports lead to is read by who asks for it."""
    return {name: getattr(binary, name) for name in ("format", "machine", "needed", "delayed", "soname", "rpath")}


class Needs:
    """``users`` of each needed name. Names are compared as loaders do: exactly on Linux, without case on Windows."""

    def __init__(self, libraries: Sequence[Linked]) -> None:
        self.users: dict[str, list[str]] = defaultdict(list)
        self._windows = any(library.format == "pe" for library in libraries)
        names = {name for library in libraries for name in (library.base, library.soname) if name}
        self._brought = {name.lower() for name in names} if self._windows else names
        for library in libraries:
            for name in (*library.needed, *library.delayed):
                self.users[name].append(library.base)

    def bundled(self, name: str) -> bool:
        return (name.lower() if self._windows else name) in self._brought

    @property
    def external(self) -> list[str]:
        return [name for name in sorted(self.users) if not self.bundled(name)]


def is_native(name: str) -> bool:
    """Does a file of this name hold machine code?"""
    return _NATIVE.search(name) is not None
