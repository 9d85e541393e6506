"""Why a value is not what the plan proposes: the refusals that were kept about it."""

from __future__ import annotations

import itertools

import msgspec

from rekindle.errors import BadInput
from rekindle.facts import Facts, load_facts
from rekindle.model.machine import Machine
from rekindle.model.plan import Answer, Considered, Plan, WhyNot, Wish
from rekindle.plan.assess import assess, assessed_builds
from rekindle.plan.candidates import Assessed, official_wheels
from rekindle.plan.grafts import graft_candidates
from rekindle.plan.question import Question, check_wish
from rekindle.plan.rules_system import find_obstacle
from rekindle.plan.solve import make_plan

AXES = ("torch", "variant", "cuda", "rocm", "cudnn", "python", "compiler")
_WAYS: tuple[Answer, ...] = ("install", "graft", "build")
_MOST = 8


def why_not(machine: Machine, wish: Wish, text: str, facts: Facts | None = None) -> WhyNot:
    """What was judged about a value that the plan does not propose: ``text`` is ``torch=2.15``; every wheel and the
    nearest builds with that value are assessed and reported.

    >>> from rekindle.plan.describe import machine_from_flags
    >>> why_not(machine_from_flags(gpu=["Tesla K40c"]), Wish(), "torch=2.15").possible
    False
    """
    axis, _, value = (part.strip() for part in text.partition("="))
    if axis not in AXES or not value:
        raise BadInput(f"--why-not {text!r} is not understood", remedy=f"write {'|'.join(AXES)}=VALUE, like torch=2.15")
    known = facts or load_facts()
    plan = make_plan(machine, wish, known)
    asked = Question(machine, msgspec.structs.replace(wish, **{axis: value}), known)
    check_wish(asked)
    judged = _all(asked, with_builds=axis != "variant")
    assessed = [each for each in judged if all(change.what != axis for change in each.changes)]
    assessed.sort(key=lambda each: (not each.feasible, each.cost, len(each.refusals)))
    proposed = f"torch {plan.torch}" + (f"+{plan.variant}" if plan.variant else "") if plan.torch else None
    ways = {each.candidate.answer for each in assessed if each.feasible and not each.changes}
    if find_obstacle(asked) is not None or asked.cards_are_hopeless:
        ways = set()
    return WhyNot(
        asked=f"{axis}={value}",
        possible=bool(ways),
        way=next((way for way in _WAYS if way in ways), "none"),
        instead=proposed and f"{plan.answer} {proposed}",
        proposed=any(each.feasible and _is_the_plan(each, plan) for each in assessed),
        considered=tuple(_considered(each) for each in assessed[:_MOST]),
    )


def _is_the_plan(assessed: Assessed, plan: Plan) -> bool:
    one = assessed.candidate
    variant = one.flavour.name if one.flavour else None
    kept = (one.answer, one.torch, variant, one.cuda, one.rocm, one.python)
    return kept == (plan.answer, plan.torch, plan.variant, plan.cuda, plan.rocm, plan.python)


def _all(question: Question, *, with_builds: bool) -> list[Assessed]:
    wheels = [assess(candidate, question) for candidate in official_wheels(question)]
    wheels += [assess(candidate, question) for candidate in graft_candidates(question)]
    if not with_builds or question.machine.os.system == "macos":
        return wheels
    version = question.wanted_releases[:1]
    blocked = list(itertools.islice(assessed_builds(question, version, every=True), 2))
    passing = list(itertools.islice(assessed_builds(question, version), 1))
    names = {each.candidate.name for each in passing}
    return wheels + passing + [each for each in blocked if each.candidate.name not in names]


def _considered(assessed: Assessed) -> Considered:
    told = [refusal for refusal in assessed.refusals if not refusal.departure]
    return Considered(
        name=assessed.candidate.name,
        answer=assessed.candidate.answer,
        feasible=assessed.feasible,
        refusals=tuple(told),
    )
