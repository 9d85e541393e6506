"""What ``explain`` says: causes found in a log, best first."""

from __future__ import annotations

from typing import Literal

from rekindle.model.document import Document, Part

Confidence = Literal["high", "medium", "low"]


class Match(Part, frozen=True, kw_only=True):
    id: str
    confidence: Confidence
    cause: str
    fix: tuple[str, ...] = ()
    line: int | None = None
    evidence: str = ""
    source: str | None = None
    title: str = ""
    stage: str | None = None


class Diagnosis(Document, frozen=True, kw_only=True):
    """``lines`` is how many lines were read."""

    matches: tuple[Match, ...] = ()
    lines: int | None = None
