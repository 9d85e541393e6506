"""HTTP byte ranges (RFC 9110 §14) and conditional requests (§13), as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Span:
    """Bytes ``first`` to ``last``, both included."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class Unsatisfiable(Exception):
    """The range lies outside the file: the answer is 416."""


def parse_range(header: str | None, size: int) -> Span | None:
    """The one span asked for; None for none, for several or for nonsense, all of which mean "send everything"."""
    match = _RANGE.fullmatch((header or "").strip()) if header and len(header) < 100 else None
    if not match or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        length = int(last)
        if length == 0 or size == 0:
            raise Unsatisfiable
        return Span(max(0, size - length), size - 1)
    start = int(first)
    end = int(last) if last else size - 1
    if last and end < start:
        return None
    if start >= size:
        raise Unsatisfiable
    return Span(start, min(end, size - 1))


def same_tag(header: str | None, etag: str) -> bool:
    """Does ``If-None-Match`` name this representation? (Weak comparison, as the RFC asks.)"""
    if not header:
        return False
    return header.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in header.split(",")]
