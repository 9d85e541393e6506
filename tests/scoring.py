"""How good are the diagnoses: right first, right among the first three, wrong although certain."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from rekindle import api
from rekindle.model.diagnosis import Match
from samples import LOGS, Sample


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


@dataclass(frozen=True)
class Case:
    """A log and what a right answer mentions: every group by at least one of its words. No group: nobody knows."""

    name: str
    text: str
    groups: tuple[tuple[str, ...], ...]

    def is_right(self, match: Match) -> bool:
        said = json.dumps([match.id, match.title, match.cause, match.fix, match.evidence], ensure_ascii=False).lower()
        return all(any(word in said for word in group) for group in self.groups)


def load_cases(names: str = "mentions*.jsonl") -> list[Case]:
    """Cases other people confirmed, unless asked for ``written.jsonl``: logs written from what programs say.

    Those prove no rule, so that nothing becomes certain by them.
    """
    files = sorted(LOGS.glob(names))
    rows = [json.loads(line) for path in files for line in path.read_text(encoding="utf-8").splitlines()]
    return [Case(row["id"], row["text"], tuple(map(tuple, row["must_mention"]))) for row in rows]


@dataclass
class Mentions:
    total: int = 0
    first: int = 0
    silent: int = 0
    wrong_certain: int = 0
    unknown: int = 0
    unknown_certain: int = 0
    misses: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        n = max(1, self.total)
        return (
            f"{self.total} cases: right first {100 * self.first / n:.1f} %, silent {100 * self.silent / n:.1f} %, "
            f"wrong certain {100 * self.wrong_certain / n:.1f} %; "
            f"{self.unknown} unknown, {self.unknown_certain} said certain"
        )


def score_mentions(cases: Iterable[Case], explain: Callable[[str], tuple[Match, ...]] | None = None) -> Mentions:
    result = Mentions()
    for case in cases:
        matches = explain(case.text) if explain else api.explain(case.text).matches
        certain = bool(matches) and matches[0].confidence == "high"
        if not case.groups:
            result.unknown += 1
            result.unknown_certain += certain
            continue
        right = bool(matches) and case.is_right(matches[0])
        result.total += 1
        result.first += right
        result.silent += not matches
        result.wrong_certain += certain and not right
        if not right:
            result.misses.append(f"{case.name}: {[(match.id, match.confidence) for match in matches[:3]]}")
    return result
