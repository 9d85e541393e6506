"""The planner: filter axis by axis, keep every refusal, take the cheapest way that is left.

``make_plan`` is pure: the same machine, wish and facts give the same plan. A GPU nothing can serve is set aside
and named, never silently dropped.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from rekindle.facts import Facts, load_facts
from rekindle.facts.gpus import sort_key
from rekindle.model.machine import Gpu, Machine
from rekindle.model.plan import Plan, Wish
from rekindle.model.version import minor
from rekindle.plan.assess import assess, assessed_builds, with_hazards
from rekindle.plan.candidate import Assessed
from rekindle.plan.candidates import buildable_releases, official
from rekindle.plan.cost import BUILD_AS_ASKED, preference
from rekindle.plan.question import Question
from rekindle.plan.wheelhouse import HouseWheel, house_candidates
from rekindle.plan.wish import check_wish
from rekindle.plan.words import compose

_ENOUGH_BUILDS = 2
_NEIGHBOURS = 9
_HELD_BACK = 5  # minor releases


@dataclass
class Outcome:
    """All that was assessed; ``best`` is None where nothing is feasible."""

    question: Question
    wheels: list[Assessed] = field(default_factory=list)
    builds: list[Assessed] = field(default_factory=list)
    unserved: tuple[Gpu, ...] = ()
    partial: list[tuple[tuple[Gpu, ...], Assessed]] = field(default_factory=list)  # ways that serve only some cards

    @functools.cached_property
    def feasible(self) -> list[Assessed]:
        """Best first. Read only when all is assessed."""
        both = [assessed for assessed in (*self.wheels, *self.builds) if assessed.feasible]
        return sorted(both, key=lambda assessed: preference(assessed, self.question))

    @property
    def best(self) -> Assessed | None:
        return next(iter(self.feasible), None)


def make_plan(
    machine: Machine, wish: Wish | None = None, facts: Facts | None = None, wheelhouse: Sequence[HouseWheel] = ()
) -> Plan:
    """Which torch runs on this machine, how to get it, and why."""
    question = Question(machine, wish or Wish(), facts or load_facts())
    check_wish(question)
    outcome = solve(question, wheelhouse)
    for assessed in outcome.feasible[:1]:
        with_hazards(assessed, outcome.question)
    return compose(outcome)


def solve(question: Question, wheelhouse: Sequence[HouseWheel] = ()) -> Outcome:
    """Judge for all cards; where nothing serves them all, for as many as possible."""
    if question.cards_are_hopeless:
        return Outcome(question)
    outcome = _assess_all(question, wheelhouse)
    best = outcome.best
    if len(question.gpus) < 2 or (best is not None and best.candidate.answer == "install"):
        return outcome
    for kept in _subsets(question.gpus):
        dropped = {gpu.arch for gpu in question.gpus if gpu not in kept}
        others = tuple(gpu for gpu in question.machine.gpus if gpu.arch not in dropped)
        machine = msgspec.structs.replace(question.machine, gpus=others)
        smaller = _assess_all(Question(machine, question.wish, question.facts), wheelhouse)
        if smaller.best is None:
            continue
        if best is None or _much_newer(smaller.best, best, question):
            smaller.unserved = tuple(gpu for gpu in question.gpus if gpu not in kept)
            return smaller
        if len(kept) == len(question.gpus) - 1:
            outcome.partial.append((kept, smaller.best))
        else:
            break
    return outcome


def _much_newer(smaller: Assessed, whole: Assessed, question: Question) -> bool:
    """One old card (often the one that only drives the display) must not hold the others years back."""
    if question.torch is not None:
        return False
    order = question.facts.minors
    return order[minor(smaller.candidate.torch)] - order[minor(whole.candidate.torch)] >= _HELD_BACK


def _subsets(gpus: tuple[Gpu, ...]) -> Iterable[tuple[Gpu, ...]]:
    """Large ones first; among equals those that keep the newest cards."""
    order = sorted(gpus, key=lambda gpu: sort_key(gpu.arch), reverse=True)
    for size in range(len(gpus) - 1, 0, -1):
        yield from itertools.combinations(order, size)


def _assess_all(question: Question, wheelhouse: Sequence[HouseWheel]) -> Outcome:
    outcome = Outcome(question)
    outcome.wheels = _assess_wheels(question)
    outcome.wheels += [assess(candidate, question) for candidate in house_candidates(wheelhouse, question)]
    cheapest = min((assessed.cost for assessed in outcome.wheels if assessed.feasible), default=None)
    if question.wish.build or cheapest is None or cheapest >= BUILD_AS_ASKED:
        outcome.builds = _find_builds(question)
    return outcome


def _assess_wheels(question: Question) -> list[Assessed]:
    """Newest first. Where no torch is asked for and one fits perfectly, only its neighbours are looked at too."""
    found: list[Assessed] = []
    stop_at: int | None = None
    for candidate in official(question):
        place = question.facts.minors[minor(candidate.torch)]
        if stop_at is not None and place < stop_at:
            break
        assessed = assess(candidate, question)
        found.append(assessed)
        if stop_at is None and question.torch is None and assessed.feasible and assessed.cost == 0:
            stop_at = place - _NEIGHBOURS
    return found


def _builds_with_kit(question: Question) -> list[Assessed]:
    """No torch is asked for, but a toolkit is: the newest releases that take it, with the fewest changes."""
    found: list[Assessed] = []
    for version in question.wanted_releases:
        first = next(iter(assessed_builds(question, (version,), kits=1)), None)
        if first is not None:
            found.append(first)
        if sum(assessed.feasible for assessed in found) >= 2 * _ENOUGH_BUILDS:
            break
        if first is not None and first.feasible and not first.changes and not first.doubts:
            break
    return found


def _find_builds(question: Question) -> list[Assessed]:
    """The first feasible builds, nearest to the wish first; stops early, since a build is a build."""
    found: list[Assessed] = []
    feasible = 0
    wanted = set(question.wanted_releases)
    if question.machine.os.system == "macos":
        return found
    asked_kit = question.wish.cuda or question.wish.rocm
    if question.torch is None and asked_kit:
        found += _builds_with_kit(question)
    for version in buildable_releases(question):
        if feasible >= _ENOUGH_BUILDS and version not in wanted:
            break
        here = 0
        for assessed in assessed_builds(question, (version,)):
            found.append(assessed)
            if not assessed.feasible:
                continue
            here += 1
            if not assessed.changes and not assessed.doubts:
                return found
            if here >= _ENOUGH_BUILDS:
                break
        feasible += here
        if feasible >= 3 * _ENOUGH_BUILDS:
            break
    return found
