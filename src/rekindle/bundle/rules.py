"""Which library goes into a fat wheel, from ``rules.toml``: leave, bring, bring along, under which licence."""

import fnmatch
from collections.abc import Collection

import msgspec

from rekindle.model.toml import read_beside


class Leave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Libraries that stay outside."""

    system: str
    why: str
    source: str
    names: tuple[str, ...]
    # Only for wheels that require this package.
    package: str | None = None


class Loaded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a library opens by name while it runs."""

    when: tuple[str, ...]
    source: str
    bring: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


class Licence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Under which licence libraries come."""

    names: tuple[str, ...]
    name: str
    spdx: str
    source: str


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of ``rules.toml``; ``search`` are the folders of a system where libraries are looked for."""

    schema: int
    retrieved: str
    search: dict[str, tuple[str, ...]]
    leave: tuple[Leave, ...]
    loaded: tuple[Loaded, ...]
    licence: tuple[Licence, ...]

    def why_left(self, name: str, system: str, requires: Collection[str] = ()) -> str | None:
        """Why a library must stay outside of a wheel that requires these packages; None if it is to be brought."""
        rows = [row for row in self.leave if row.system == system and (not row.package or row.package in requires)]
        return next((row.why for row in rows if _matches(name, row.names)), None)

    def companions(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(patterns of libraries, data directories) that a library opens while it runs."""
        rows = [row for row in self.loaded if _matches(name, row.when)]
        return tuple(p for row in rows for p in row.bring), tuple(d for row in rows for d in row.data)

    def asked_by_name(self, name: str) -> bool:
        """Is the library, or one that it opens, looked for by its name while programs run? It must keep that name."""
        return any(_matches(name, row.when) or _matches(name, row.bring) for row in self.loaded)

    def licence_of(self, name: str) -> Licence | None:
        return next((row for row in self.licence if _matches(name, row.names)), None)


def load_rules() -> Rules:
    """The rules that come with Rekindle."""
    return read_beside(__file__, "rules.toml", Rules)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    # Windows does not tell Cudart64.DLL from cudart64.dll; Linux names are matched as they are.
    if name.lower().endswith((".dll", ".drv")):
        name, patterns = name.lower(), tuple(pattern.lower() for pattern in patterns)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
