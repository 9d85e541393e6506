"""Which functions carry a guard: read from ``guards.toml``, matched against symbol and file names."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Guard:
    id: str
    title: str
    trust: str
    name: re.Pattern[str] | None
    file: re.Pattern[str] | None
    library: re.Pattern[str] | None = None
    needs: frozenset[str] = frozenset()

    def covers(self, name: str, file: str) -> bool:
        return bool((self.name and self.name.search(name)) or (self.file and file and self.file.search(file)))


@dataclass(frozen=True)
class Guards:
    rows: tuple[Guard, ...]
    check_function: re.Pattern[str]
    check_variable: re.Pattern[str]

    def find(self, name: str, file: str, library: str = "") -> Guard | None:
        """The first guard that covers a function; the table's order is the order of trust."""
        found = next((guard for guard in self.rows if guard.covers(name, file)), None)
        return found or next((guard for guard in self.rows if guard.library and guard.library.search(library)), None)


@functools.cache
def load_guards() -> Guards:
    raw = tomllib.loads(resources.files("rekindle.inspect").joinpath("guards.toml").read_text("utf-8"))

    def pattern(text: str | None) -> re.Pattern[str] | None:
        return re.compile(text) if text else None

    rows = tuple(
        Guard(
            row["id"],
            row["title"],
            row["trust"],
            pattern(row.get("name")),
            pattern(row.get("file")),
            pattern(row.get("library")),
            frozenset(row.get("needs", ())),
        )
        for row in raw["guard"]
    )
    return Guards(rows, re.compile(raw["checks"]["function"]), re.compile(raw["checks"]["variable"]))
