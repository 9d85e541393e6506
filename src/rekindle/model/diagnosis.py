"""What ``explain`` says: causes found in a log, best first."""

from __future__ import annotations

import re
from typing import Literal

from rekindle.model.document import Document, Part

Confidence = Literal["high", "medium", "low"]
_PLACEHOLDER = re.compile(r"\{([\w,]+)(?:\|([^{}]*))?\}")


class Match(Part, frozen=True, kw_only=True):
    """One cause that fits, with what shows it and what helps."""

    id: str
    confidence: Confidence
    cause: str
    fix: tuple[str, ...] = ()
    line: int | None = None
    evidence: str = ""
    source: str | None = None
    title: str = ""
    stage: str | None = None


class Unexplained(Part, frozen=True, kw_only=True):
    """What is known where no cause is: the first real error, its kind in words, and how to go on."""

    kind: str
    words: str
    quote: str
    line: int | None = None
    place: str | None = None
    facts: dict[str, str] = {}
    steps: tuple[str, ...] = ()
    post: str = ""


class Diagnosis(Document, frozen=True, kw_only=True):
    """``lines`` is how many lines were read; ``facts`` what the log says of the machine and the versions.
    ``unexplained`` is there where no cause is known; ``exit_code`` where a command was run."""

    matches: tuple[Match, ...] = ()
    lines: int | None = None
    facts: dict[str, str] = {}
    unexplained: Unexplained | None = None
    exit_code: int | None = None


class RulePage(Part, frozen=True, kw_only=True):
    """What is known about one cause; texts still hold their placeholders, samples are the words that fire it."""

    id: str
    family: str
    title: str
    stage: str
    confidence: Confidence
    cause: str
    fix: tuple[str, ...]
    source: str
    windows: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    variant: str = ""
    asks: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None


class Catalogue(Document, frozen=True, kw_only=True):
    """``explain --list`` and ``--rule``."""

    rules: tuple[RulePage, ...] = ()
    families: dict[str, str] = {}


class RuleTrial(Part, frozen=True, kw_only=True):
    """What became of one rule on a log: ``place`` among the answers, ``winner`` the first of them, and every step."""

    rule: str
    outcome: Literal["won", "lost", "did not fire"]
    place: int | None = None
    winner: str | None = None
    steps: tuple[str, ...] = ()


class Trials(Document, frozen=True, kw_only=True):
    """``explain --try``: a rule with all its variants, or the rules of a file."""

    trials: tuple[RuleTrial, ...] = ()


def readable(template: str) -> str:
    """A text without its placeholders: ``{arch|this one}`` reads "this one", ``{arch}`` reads "<arch>"."""

    def words(match: re.Match[str]) -> str:
        if match[2] is not None or match[1].endswith("_sentence"):
            return match[2] or ""
        return f"<{match[1].split(',')[0].replace('_', ' ')}>"

    return re.sub(r"\s+([.,;:)])", r"\1", _PLACEHOLDER.sub(words, template)).strip()
