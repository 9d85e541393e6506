"""Which answers cannot both be true of one failure (``opposites.toml``)."""

from __future__ import annotations

import functools
from pathlib import Path

from rekindle.explain.files import read_file
from rekindle.model.document import Part

OPPOSITES = Path(__file__).parent / "opposites.toml"


class Opposite(Part, frozen=True, kw_only=True):
    """No answer of ``one`` goes with an answer of ``other``."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    why: str


class OppositesFile(Part, frozen=True, kw_only=True):
    opposite: tuple[Opposite, ...]


@functools.cache
def load_opposites() -> dict[str, frozenset[str]]:
    """The answers that each answer excludes, both ways."""
    found: dict[str, set[str]] = {}
    for row in read_file(OPPOSITES, "explain-opposites", OppositesFile).opposite:
        for sides in ((row.one, row.other), (row.other, row.one)):
            for answer in sides[0]:
                found.setdefault(answer, set()).update(sides[1])
    return {answer: frozenset(others) for answer, others in found.items()}


def excludes(answer: str, other: str) -> bool:
    return other in load_opposites().get(answer, ())
