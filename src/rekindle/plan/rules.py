"""The register of rules. A rule has a stable number, says what it holds in its docstring, and refuses with a reason.

``R0xx`` the wish · ``R1xx`` accelerator · ``R2xx`` toolchain · ``R3xx`` Python · ``R4xx`` CPU and system ·
``R5xx`` resources. A rule gets a candidate and the question and yields refusals; "cannot tell" is a refusal
with ``certain=False``. What a rule needs of the facts it reads there: no version number lives in code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from rekindle.model.facts import Hazard
from rekindle.model.plan import Answer, Change, Refusal
from rekindle.plan.candidates import Candidate
from rekindle.plan.question import Question

Check = Callable[[Candidate, Question], Iterable[Refusal]]


class PlanRule(NamedTuple):
    number: str
    applies: tuple[Answer, ...]
    check: Check

    @property
    def title(self) -> str:
        return (self.check.__doc__ or "").strip().splitlines()[0]


RULES: dict[str, PlanRule] = {}


def rule(number: str, *applies: Answer) -> Callable[[Check], Check]:
    """Register a check under its number, which its refusals then carry."""

    def register(check: Check) -> Check:
        if number in RULES:
            raise ValueError(f"rule {number} is registered twice")

        @functools.wraps(check)
        def numbered(candidate: Candidate, question: Question) -> Iterator[Refusal]:
            for refusal in check(candidate, question):
                yield refusal if refusal.rule else replace(refusal, rule=number)

        RULES[number] = PlanRule(number, applies or ("install", "graft", "build"), numbered)
        return numbered

    return register


def hazard_refusal(
    hazard: Hazard, what: str, *, rule: str | None = None, certain: bool = True, change: Change | None = None
) -> Refusal:
    """A known hazard as a "no", in its own words; with a change, the reason of that one."""
    reason = f"{change.why}." if change else hazard.text
    return Refusal(
        code=hazard.id,
        what=what,
        reason=reason,
        remedy=hazard.remedy,
        source=hazard.source[0],
        rule=rule,
        change=change,
        certain=certain,
    )


def refusals(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """Every refusal every rule has for this candidate."""
    for each in _applying(candidate.answer, len(RULES)):
        yield from each.check(candidate, question)


@functools.lru_cache(maxsize=16)
def _applying(answer: Answer, registered: int) -> tuple[PlanRule, ...]:
    """Those that concern such a way; ``registered`` makes it anew when there are more rules."""
    return tuple(each for each in RULES.values() if answer in each.applies)
