"""The register of rules, and the words of the planner. A rule has a stable number, says what it holds in its docstring,
and refuses with a reason; "cannot tell" is a refusal with ``certain=False``. No version number lives in code.

``R0xx`` the wish · ``R1xx`` accelerator · ``R2xx`` toolchain · ``R3xx`` Python · ``R4xx`` CPU and system ·
``R5xx`` resources. ``when`` says which questions a rule concerns at all. ``reads`` says which part of a question its
answer about a published wheel depends on, so that one answer serves many: the ``cards`` (with the platform; not the
wish, the Python or the driver), or the ``system`` (with the wish and the Python; not the cards, the driver or the CPU).

The words stand in ``sentences.toml``, each under the code of what is said; a slash and a word tell several apart. In
braces stand values by their names; ``{c.torch}`` and its like are of the candidate."""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec.structs import replace

from rekindle.facts.tables import read_own
from rekindle.model.document import Part
from rekindle.model.facts import Hazard
from rekindle.model.plan import Answer, Change, Reason, Refusal
from rekindle.plan.candidates import Candidate
from rekindle.plan.question import Question, recall

Check = Callable[[Candidate, Question], Iterable[Refusal]]
When = Callable[[Question], bool]
Reads = Literal["cards", "system"]


class PlanRule(NamedTuple):
    number: str
    applies: tuple[Answer, ...]
    check: Check
    when: When | None
    reads: Reads | None

    @property
    def title(self) -> str:
        return (self.check.__doc__ or "").strip().splitlines()[0]


RULES: dict[str, PlanRule] = {}


def rule(
    number: str, *applies: Answer, when: When | None = None, reads: Reads | None = None
) -> Callable[[Check], Check]:
    """Register a check under its number, which its refusals then carry."""

    def register(check: Check) -> Check:
        if number in RULES:
            raise ValueError(f"rule {number} is registered twice")

        @functools.wraps(check)
        def numbered(candidate: Candidate, question: Question) -> Iterator[Refusal]:
            for refusal in check(candidate, question) if when is None or when(question) else ():
                yield refusal if refusal.rule else replace(refusal, rule=number)

        RULES[number] = PlanRule(number, applies or ("install", "graft", "build"), numbered, when, reads)
        return numbered

    return register


def hazard_refusal(
    hazard: Hazard, what: str, *, rule: str | None = None, certain: bool = True, change: Change | None = None
) -> Refusal:
    """A known hazard as a "no", in its own words; with a change, the reason of that one."""
    return Refusal(
        code=hazard.id,
        what=what,
        reason=f"{change.why}." if change else hazard.text,
        remedy=hazard.remedy,
        source=hazard.source[0],
        rule=rule,
        change=change,
        certain=certain,
    )


def refusals(candidate: Candidate, question: Question) -> list[Refusal]:
    """Every refusal every rule has for this candidate, in the order of the rules."""
    said: list[tuple[int, Refusal]] = []
    concerned = functools.partial(_concerned_rules, candidate.answer, question)
    for reads, rules in recall(question.cache, ("rules", candidate.answer, len(RULES)), concerned).items():
        if reads is None or not candidate.is_published:
            said += _ask_rules(rules, candidate, question)
            continue
        # What such rules say of a published wheel serves other questions too: all of them are kept together.
        key = "refusals", candidate.torch, id(candidate.flavour), None if reads == "cards" else candidate.python
        said += recall(question.shared[reads], key, functools.partial(_ask_rules, rules, candidate, question))
    return [refusal for _, refusal in sorted(said, key=operator.itemgetter(0))]


def _concerned_rules(answer: Answer, question: Question) -> dict[Reads | None, list[PlanRule]]:
    """The rules for such a way that concern this question, by what they read."""
    groups: dict[Reads | None, list[PlanRule]] = {}
    for each in RULES.values():
        if answer in each.applies and (each.when is None or each.when(question)):
            groups.setdefault(each.reads, []).append(each)
    return groups


def _ask_rules(rules: list[PlanRule], candidate: Candidate, question: Question) -> list[tuple[int, Refusal]]:
    return [(list(RULES).index(each.number), refusal) for each in rules for refusal in each.check(candidate, question)]


def passes_all(checks: Iterable[Check], candidate: Candidate, question: Question) -> bool:
    """Does none of these checks refuse it?"""
    return not any(True for check in checks for _ in check(candidate, question))


class Sentence(Part, frozen=True, kw_only=True):
    """``what`` is refused (or the candidate), ``remedy`` what would help; ``source`` where it is always the same."""

    text: str
    what: str = "{c.name}"
    remedy: str | None = None
    source: str | None = None
    certain: bool = True


@functools.cache
def load_sentences() -> dict[str, Sentence]:
    return read_own(__file__, "sentences.toml", dict[str, Sentence])


def say(
    name: str,
    candidate: Candidate | None = None,
    /,
    *,
    source: str | None = None,
    handled: bool = False,
    **values: object,
) -> Reason:
    """The sentence of that name as a reason."""
    sentence = load_sentences()[name]
    text = sentence.text.format(c=candidate, **values)
    return Reason(code=name.partition("/")[0], text=text, source=source or sentence.source, handled=handled)


def refuse(
    name: str,
    candidate: Candidate | None,
    /,
    *,
    source: str | None = None,
    remedy: str | None = None,
    rule: str | None = None,
    change: Change | tuple[str, str | None, str | None] | None = None,
    departure: bool = False,
    **values: object,
) -> Refusal:
    """That sentence as a "no". ``change``: of what, from, to; the sentence is its reason. ``remedy`` beats its own."""
    sentence = load_sentences()[name]
    reason = sentence.text.format(c=candidate, **values)
    if isinstance(change, tuple):
        change = Change(what=change[0], from_=change[1], to=change[2], why=reason)
    return Refusal(
        code=name.partition("/")[0],
        what=sentence.what.format(c=candidate, **values),
        reason=reason,
        remedy=remedy or (sentence.remedy.format(c=candidate, **values) if sentence.remedy else None),
        source=source or sentence.source,
        rule=rule,
        change=change,
        certain=sentence.certain,
        departure=departure,
    )
