"""How far a rule may be trusted: what it did on confirmed cases.

A rule may be certain only if it answered at least one case of other people's first and rightly *by the same words* (or
by the same kind of typed event), and was never first and wrong more than once in so many. What nobody confirmed is
probable at most: a rule with ten ways to fire is not proven in all of them by one. Where the installed torch itself was
read and answers what the rule asks, the words need no proof. ``benchmarks/explain_score.py --write`` counts again; it
also says, on cases that were not counted, how often a certain answer is right.
"""

from __future__ import annotations

import functools
from pathlib import Path

from rekindle.explain.rule import read_file
from rekindle.model.diagnosis import Confidence
from rekindle.model.document import Part

PROVEN = Path(__file__).parent / "proven.toml"
# One wrong answer is forgiven per so many right ones.
_FORGIVEN = 10


class Proof(Part, frozen=True, kw_only=True):
    """``ways``: the words (or kinds of events) by which it was right."""

    right: int
    wrong: int = 0
    ways: tuple[str, ...] = ()

    @property
    def is_enough(self) -> bool:
        return self.right > 0 and self.wrong * _FORGIVEN <= self.right


class ProvenFile(Part, frozen=True, kw_only=True):
    rule: dict[str, Proof] = {}


@functools.cache
def load_proofs() -> dict[str, Proof]:
    if not PROVEN.is_file():
        return {}
    return read_file(PROVEN, "explain-proven", ProvenFile).rule


def capped(rule: str, way: str | None, confidence: Confidence, proofs: dict[str, Proof]) -> Confidence:
    """The confidence a rule claims, no higher than its proof allows for the way it fired (None: any way will do)."""
    proof = proofs.get(rule)
    is_proven = proof is not None and proof.is_enough and (way is None or way in proof.ways)
    return "medium" if confidence == "high" and not is_proven else confidence
