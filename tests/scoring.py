"""How good are the diagnoses: right first, right among the first three, wrong although certain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rekindle import api
from samples import Sample


@dataclass
class Score:
    name: str
    total: int = 0
    first: int = 0
    three: int = 0
    wrong_certain: int = 0
    misses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        def share(n: int) -> str:
            return f"{n}/{self.total} ({100 * n / max(1, self.total):.1f} %)"

        return (
            f"{self.name}: right first {share(self.first)}, in first three {share(self.three)}, "
            f"wrong certain {share(self.wrong_certain)}"
        )


def score(name: str, samples: Iterable[Sample], carry: Callable[[Sample], bytes]) -> Score:
    """``carry`` turns a sample into the bytes a user would give."""
    result = Score(name)
    for sample in samples:
        matches = api.explain(carry(sample)).matches
        ids = [match.id for match in matches]
        result.total += 1
        result.first += ids[:1] == [sample.cause]
        result.three += sample.cause in ids[:3]
        wrong = bool(ids) and ids[0] != sample.cause and matches[0].confidence == "high"
        result.wrong_certain += wrong
        if ids[:1] != [sample.cause]:
            result.misses.append(f"{sample.name} {sample.cause}: {ids[:4]}{' CERTAIN' if wrong else ''}")
    return result
