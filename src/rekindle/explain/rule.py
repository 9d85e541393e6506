"""What a rule is, and how the rules are read from ``rules/*.toml``.

A *pattern* fires on text: one of the fixed words in ``has`` stands in a line and, if given, ``regex`` matches the
*flat window* around it (that line and ``lines - 1`` following ones, ``before`` preceding ones, without framing, quotes
made plain, white space collapsed) and ``unless`` does not. A *rule* gives patterns a cause, a fix and a source.
A *signal* is a pattern without a cause: it tells about the surroundings (versions, platform, milestones).
"""

from __future__ import annotations

import functools
import importlib.resources
import re
import tomllib
from typing import Literal

import msgspec

from rekindle.model.diagnosis import Confidence
from rekindle.model.document import Part

Stage = Literal["source", "configure", "compile", "link", "install", "import", "runtime"]
Kind = Literal["error", "warning", "note"]
_RULES = importlib.resources.files("rekindle.explain") / "rules"


class Pattern(Part, frozen=True, kw_only=True):
    has: tuple[str, ...]
    regex: str | None = None
    unless: str | None = None
    lines: int = 1
    before: int = 0

    @property
    def words(self) -> tuple[bytes, ...]:
        return tuple(word.encode() for word in self.has)


class Rule(Part, frozen=True, kw_only=True):
    """``rank`` says how likely this is the root when other rules fire too (0 to 100, 50 is usual); ``explains``
    names rules whose findings are consequences of this one; ``alternatives`` are other causes of the very same words.
    ``variant`` tells rules with the same id apart. ``since`` and ``until`` are the torch releases it is known from and
    to: in a log of another release it is less certain."""

    id: str
    title: str
    stage: Stage
    match: tuple[Pattern, ...]
    cause: str
    fix: tuple[str, ...]
    source: str
    variant: str = ""
    confidence: Confidence = "high"
    kind: Kind = "error"
    rank: int = 50
    when: tuple[str, ...] = ()
    fill: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None

    @property
    def key(self) -> str:
        return f"{self.id}/{self.variant}" if self.variant else self.id


class Signal(Part, frozen=True, kw_only=True):
    id: str
    match: tuple[Pattern, ...]


class RuleFile(Part, frozen=True, kw_only=True):
    about: str = ""
    rule: tuple[Rule, ...] = ()
    signal: tuple[Signal, ...] = ()


@functools.cache
def load_files() -> dict[str, RuleFile]:
    """Every family (the file's name) with its rules, in a stable order."""
    files = {}
    for entry in sorted(_RULES.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".toml"):
            table = tomllib.loads(entry.read_text(encoding="utf-8"))
            files[entry.name.removesuffix(".toml")] = msgspec.convert(table, RuleFile)
    return files


@functools.cache
def load_rules() -> tuple[Rule, ...]:
    return tuple(rule for file in load_files().values() for rule in file.rule)


@functools.cache
def load_signals() -> tuple[Signal, ...]:
    return tuple(signal for file in load_files().values() for signal in file.signal)


@functools.cache
def compiled(regex: str) -> re.Pattern[str]:
    """Compiled on first use: most runs need a handful of several hundred."""
    return re.compile(regex)
