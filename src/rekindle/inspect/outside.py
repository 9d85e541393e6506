"""What a wheel needs and does not bring. Only Python's own library: exported Dockerfiles carry this along."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

_NATIVE = re.compile(r"\.(?:so(?:\.[0-9A-Za-z_.]+)?|dll|pyd|exe)$|(?:^|/)bin/[^/.]+$", re.IGNORECASE)


class Linked(Protocol):
    """A library by its file's name: what it calls itself, and what it needs (``delayed``: only when called)."""

    @property
    def base(self) -> str: ...
    @property
    def format(self) -> str: ...
    @property
    def soname(self) -> str | None: ...
    @property
    def needed(self) -> tuple[str, ...]: ...
    @property
    def delayed(self) -> tuple[str, ...]: ...


class Needs:
    """``users`` of each needed name. Names are compared as loaders do: exactly on Linux, without case on Windows."""

    def __init__(self, libraries: Iterable[Linked]) -> None:
        self.users: dict[str, list[str]] = defaultdict(list)
        self._brought: set[str] = set()
        self._windows = False
        for library in libraries:
            self._windows = self._windows or library.format == "pe"
            self._brought.update(name for name in (library.base, library.soname) if name)
            for name in (*library.needed, *library.delayed):
                self.users[name].append(library.base)
        if self._windows:
            self._brought = {name.lower() for name in self._brought}

    def bundled(self, name: str) -> bool:
        return (name.lower() if self._windows else name) in self._brought

    @property
    def external(self) -> list[str]:
        return [name for name in sorted(self.users) if not self.bundled(name)]


def is_native(name: str) -> bool:
    """Does a file of this name hold machine code?"""
    return _NATIVE.search(name) is not None
