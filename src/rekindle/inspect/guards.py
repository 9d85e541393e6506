"""Which functions carry a guard: read from ``guards.toml``, matched against symbol and file names."""

import functools
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from rekindle.model.toml import read_beside


@dataclass(frozen=True)
class Guard:
    """A row of ``guards.toml``, where its fields are explained."""

    id: str
    title: str
    trust: str
    name: re.Pattern[str] | None = None
    file: re.Pattern[str] | None = None
    library: re.Pattern[str] | None = None
    needs: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()

    def covers(self, name: str, file: str, lower: str | None = None) -> bool:
        """``lower``: name and file in small letters, from a caller that has them already."""
        # One of the words is in whatever the patterns match; to look for them first is a hundred times as fast.
        if self.words and not has_one((name + file).lower() if lower is None else lower, self.words):
            return False
        return bool((self.name and self.name.search(name)) or (self.file and file and self.file.search(file)))


class QuestionNames(NamedTuple):
    """The names of functions through which code asks the CPU; ``words`` as in :class:`Guard`."""

    pattern: re.Pattern[str]
    words: tuple[str, ...]

    def search(self, name: str) -> bool:
        return has_one(name.lower(), self.words) and self.pattern.search(name) is not None


@dataclass(frozen=True)
class Guards:
    """The table: guards in the order of trust, and how code asks the CPU."""

    rows: tuple[Guard, ...]
    check_function: QuestionNames
    check_variable: re.Pattern[str]
    copy_words: tuple[str, ...]

    def marks_copies(self, file: str) -> bool:
        """Is this source file named for the CPU its code is for?"""
        return any(guard.id == "capability-copy" and guard.file and guard.file.search(file) for guard in self.rows)

    def telling(self, name: str) -> bool:
        """Has this name a word in it that instruction sets are known by?"""
        return has_one(short(name).lower(), self.copy_words)

    def find(self, name: str, file: str, library: str = "") -> Guard | None:
        """The first guard that covers a function; the table's order is the order of trust."""
        name = short(name)
        lower = (name + file).lower()
        by_name = next((guard for guard in self.rows if guard.covers(name, file, lower)), None)
        return by_name or next((guard for guard in self.rows if guard.library and guard.library.search(library)), None)


def has_one(text: str, words: tuple[str, ...]) -> bool:
    """Is one of the words in the text?"""
    return any(map(text.__contains__, words))


def short(name: str) -> str:
    """What tells a copy apart stands early in a name or is its suffix; C++ names may be thousands of bytes long."""
    return name if len(name) <= 320 else name[:240] + name[-80:]


@functools.cache
def load_guards() -> Guards:
    raw = read_beside(__file__, "guards.toml", dict[str, Any])
    rows = []
    for row in raw["guard"]:
        name, file, library = (re.compile(row[key]) if key in row else None for key in ("name", "file", "library"))
        needs, words = frozenset(row.get("needs", ())), tuple(row.get("words", ()))
        rows.append(Guard(row["id"], row["title"], row["trust"], name, file, library, needs, words))
    check = QuestionNames(re.compile(raw["checks"]["function"]), tuple(raw["checks"]["words"]))
    return Guards(tuple(rows), check, re.compile(raw["checks"]["variable"]), tuple(raw["copies"]["words"]))
