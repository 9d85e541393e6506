"""The planner: filter axis by axis, keep every refusal, take the cheapest way that is left. ``make_plan`` is pure: the
same machine, wish and facts give the same plan. A GPU nothing can serve is set aside and named, never silently dropped.
``why_not`` tells of a value that the plan does not propose what was kept about it."""

import copy
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from rekindle.compat.driver import wanted_driver
from rekindle.errors import BadInput
from rekindle.facts import Facts, load_facts
from rekindle.facts.gpus import sort_key
from rekindle.model.document import shared_fields
from rekindle.model.graft import GraftRow
from rekindle.model.machine import Cpu, Drivers, Gpu, Machine
from rekindle.model.plan import Answer, Considered, Plan, Reason, WhyNot, Wish
from rekindle.model.version import compare, key, minor
from rekindle.plan import candidates
from rekindle.plan.assess import PRICES, GroupPlan, PlanOutcome, assess, assessed_builds, releases_behind
from rekindle.plan.candidates import Assessed, HouseWheel
from rekindle.plan.evidence import anybody_built
from rekindle.plan.grafts import graft_candidates
from rekindle.plan.question import BuildInputs, PlanMemory, Question, check_wish
from rekindle.plan.rules_gpu import driver_answer
from rekindle.plan.rules_toolchain import find_obstacle
from rekindle.plan.wording.document import compose_plan

_ENOUGH_BUILDS = 2
_NEIGHBOURS = 9
_HELD_BACK = 4  # minor releases: more than a year
_NEAR = 2
_ODD_PAIRS = ("rocm-pair-unproven", "cuda-pair-unproven")
_WHEEL_GLIBC = "2.28"  # what the wheels of today want
ServedCards = tuple[tuple[Gpu, ...], PlanOutcome]
_SCREEN_GIB = 2  # with less, torch's own libraries leave next to no room for anything else


def make_plan(
    machine: Machine,
    wish: Wish | None = None,
    facts: Facts | None = None,
    wheelhouse: Sequence[HouseWheel | GraftRow] = (),
    *,
    builds_only: bool = False,
    inputs: BuildInputs | None = None,
    notices: Sequence[Reason] = (),
) -> Plan:
    """Which torch runs on this machine, how to get it, and why. ``builds_only`` looks at no wheels, not even as
    alternatives: for who plans hundreds of builds. ``inputs`` is what else is settled about a build,
    ``notices`` are warnings about how the question was put."""
    question = Question(machine, wish or Wish(), facts or load_facts(), inputs or BuildInputs())
    check_wish(question)
    return compose_plan(_judge_question(question, wheelhouse, builds_only=builds_only), notices)


def make_plans(
    asked: Iterable[tuple[Machine, Wish]],
    facts: Facts,
    inputs_for: Callable[[Machine, Wish], BuildInputs],
    memory: PlanMemory,
) -> Iterator[Plan]:
    """The plan of each of these machines and wishes; results for one are used for the next. Neighbours that differ in
    their CPU alone are judged once, if the CPUs have the same size and meet the same deciding hazards; the plan is
    worded for each."""
    judged: list[tuple[tuple[object, ...], frozenset[int], PlanOutcome]] = []
    before: tuple[Machine, Wish] | None = None
    question: Question | None = None
    for machine, wish in asked:
        cpu = machine.cpu
        alike = msgspec.structs.replace(machine, cpu=Cpu()), wish
        if question is not None and alike == before:
            question = question.with_cpu(cpu)
        else:
            question = Question(machine, wish, facts, inputs_for(machine, wish), memory=memory)
            before, judged = alike, []
            check_wish(question)
        # Those for which a CPU may be the reason to choose something else.
        possible = [(number, facts.hazards.hazard[number]) for number in question.possible_hazards]
        met = frozenset(number for number, row in possible if row.cpu_lacks and (row.effect != "warns" or row.flavour))
        size = (question.arch, cpu.threads, cpu.cores)
        of_size = ((hazards, outcome) for kind, hazards, outcome in judged if kind == size)
        same = (outcome for hazards, outcome in of_size if not _may_change(hazards ^ met, outcome))
        if (verdict := next(same, None)) is None:
            verdict = _judge_question(question)
            judged.append((size, met, verdict))
        outcome = copy.copy(verdict)
        outcome.question = outcome.question.with_cpu(cpu)
        yield compose_plan(outcome)


def _may_change(hazards: frozenset[int], outcome: PlanOutcome) -> bool:
    """Could one of these hazards have changed what was judged? Those of wheels concern wheels that were looked at."""
    question, rows = outcome.question, outcome.question.facts.hazards.hazard
    if outcome.nearest or len(question.machine.gpus) > 1 or any(rows[number].concerns != "wheel" for number in hazards):
        return bool(hazards)
    seen = (assessed.candidate for assessed in (*outcome.wheels, *outcome.grafts)) if hazards else ()
    return any(number in hazards for candidate in seen for number, _ in candidates.hazards_of(candidate, question))


def _judge_question(
    question: Question, wheelhouse: Sequence[HouseWheel | GraftRow] = (), *, builds_only: bool = False
) -> PlanOutcome:
    """All that is known about every way, before any of it is put into words. It looks at the CPU for hazards only."""
    outcome = solve(question, wheelhouse, builds_only=builds_only)
    best = outcome.best
    if builds_only or (best is not None and (best.candidate.answer == "install" or question.wish.build)):
        return outcome
    # Without any way; or where it takes a build or a graft, and a newer system alone would give a wheel.
    if best is None or any({no.code for no in wheel.refusals} == {"glibc-too-old"} for wheel in outcome.wheels):
        outcome.nearest = list(itertools.islice(find_nearest(question), _NEAR if best is None else 1))
    return outcome


def solve(
    question: Question, wheelhouse: Sequence[HouseWheel | GraftRow] = (), *, builds_only: bool = False
) -> PlanOutcome:
    """Judge for all cards; where nothing serves them all, for as many as possible, and say what each could have. A wish
    to serve the newest card gets the torch of that card, and the plan names what would serve all."""
    obstacle = find_obstacle(question)
    if obstacle is not None or question.cards_are_hopeless:
        return PlanOutcome(question, obstacle=obstacle)
    if builds_only:
        return PlanOutcome(question, builds=_find_builds(question))
    # Nothing can serve cards that share no driver; only one wheel for several machines can be asked for.
    shared = driver_answer(None, None, question) if len(question.gpus) > 1 and question.backend == "cuda" else None
    clash = Reason(code=shared.code, text=shared.text, source=shared.source) if shared and shared.kind == "no" else None
    outcome = PlanOutcome(question) if clash and not question.wish.build else _assess_all(question, wheelhouse)
    if len(question.gpus) < 2:
        return outcome
    groups: list[ServedCards] = []
    for cards in _card_groups(question, outcome):
        dropped = {gpu.arch for gpu in question.gpus if gpu not in cards}
        others = tuple(gpu for gpu in question.machine.gpus if gpu.arch not in dropped)
        narrow = question.ask_about(msgspec.structs.replace(question.machine, gpus=others))
        smaller = _assess_all(narrow, wheelhouse)
        groups += [(cards, smaller)] if smaller.best is not None else []
        planned = {gpu.arch for group, _ in groups for gpu in group}
        if outcome.best is None and planned == {gpu.arch for gpu in question.gpus}:
            break
    chosen = outcome
    if outcome.best is None or question.wish.serve == "newest" or _holds_others_back(groups, outcome):
        cards, chosen = _choose_group(groups, outcome, question)
        chosen.unserved = tuple(gpu for gpu in question.gpus if gpu not in cards)
    if chosen is not outcome and outcome.best is not None:
        chosen.whole = GroupPlan(question.gpus, outcome.best, _driver_for(outcome))
    for cards, smaller in groups:
        if smaller is not chosen and smaller.best is not None and _is_worth_telling(cards, smaller.best, chosen):
            chosen.alone.append(GroupPlan(cards, smaller.best, _driver_for(smaller)))
    chosen.driver_clash = clash
    return chosen


def _card_groups(question: Question, outcome: PlanOutcome) -> Iterator[tuple[Gpu, ...]]:
    """The groups of cards that are worth a plan of their own: where one torch serves all, those that leave out one
    card or the oldest ones; else large ones first, until every card has been in one."""
    order = sorted(question.gpus, key=lambda gpu: sort_key(gpu.arch), reverse=True)
    for size in range(len(order) - 1, 0, -1):
        if outcome.best is None or size == len(order) - 1:
            yield from itertools.combinations(order, size)
        else:
            yield tuple(order[:size])


def _choose_group(groups: list[ServedCards], outcome: PlanOutcome, question: Question) -> ServedCards:
    """The group to serve where not all cards can be: the largest with the newest cards; if the wish is to serve the
    newest card, the group with the newest torch for it. Without any group, all cards and their outcome."""
    everyone = (question.gpus, outcome)
    if outcome.best is None and question.wish.serve != "newest":
        return next(iter(groups), everyone)
    newest = max(question.gpus, key=lambda gpu: sort_key(gpu.arch))
    mine = [group for group in (everyone, *groups) if newest in group[0] and group[1].best is not None]
    return max(mine, key=lambda group: _newness(group[1]), default=everyone)


def _holds_others_back(groups: list[ServedCards], outcome: PlanOutcome) -> bool:
    """Would most have a better torch without one that only drives a screen, or that makes it a build in doubt?"""
    best, question = outcome.best, outcome.question
    if question.wish.serve == "all":
        return False
    large = {gpu for gpu in question.gpus if gpu.memory_gib is None or gpu.memory_gib >= _SCREEN_GIB}
    without_small = [alone for cards, alone in groups if set(cards) == large] if question.torch is None else []
    if any(_newness(alone) > _newness(outcome) for alone in without_small):
        return True
    if best is None or best.candidate.answer != "build" or question.wish.build:
        return False
    gap = any(doubt.code == "rocm-math-gap" for doubt in best.doubts)
    return gap and any(_newness(smaller)[0] for _, smaller in groups)


def _newness(outcome: PlanOutcome) -> tuple[bool, tuple[int, ...]]:
    """A wheel before a build, then the newer torch."""
    best = outcome.best
    return best is not None and best.candidate.answer == "install", key(best.candidate.torch) if best else ()


def find_nearest(question: Question) -> Iterator[tuple[str, Assessed]]:
    """The nearest things that work: with less asked for, another driver or C library, or without the GPU."""
    for why, machine, wish in _easier_questions(question):
        other = question.ask_about(machine, wish)
        if find_obstacle(other) is None and (best := _assess_all(other, ()).best) is not None:
            yield why, best


def _easier_questions(question: Question) -> Iterator[tuple[str, Machine, Wish]]:
    machine, wish = question.machine, question.wish
    newer = msgspec.structs.replace(machine.os, distro=None, libc=None, glibc=None)
    glibc = msgspec.structs.replace(machine, os=newer)
    if question.libc is not None and question.libc.kind == "musl":
        yield "on a system with glibc", glibc, wish
    elif question.libc is not None and question.libc.version and not question.cards_are_hopeless:
        other = "a newer" if compare(question.libc.version, _WHEEL_GLIBC) < 0 else "an older"
        yield f"on a system with {other} glibc", glibc, wish
    if not question.cards_are_hopeless:
        if wish.build:
            yield "without insisting on a build", machine, msgspec.structs.replace(wish, build=False)
        if question.asked:
            yield "with nothing asked for but the machine", machine, Wish()
        if machine.drivers.nvidia:
            yield "with another driver", msgspec.structs.replace(machine, drivers=Drivers()), Wish()
    if machine.gpus:
        yield "on the CPU alone", msgspec.structs.replace(machine, gpus=()), Wish(python=wish.python, variant="cpu")


def _is_worth_telling(cards: tuple[Gpu, ...], way: Assessed, chosen: PlanOutcome) -> bool:
    """A group of cards that the plan leaves out, or one that could have a better torch without the others."""
    if chosen.unserved:
        return any(gpu in chosen.unserved for gpu in cards)
    if chosen.best is None:
        return True
    ours, best = way.candidate, chosen.best.candidate
    return compare(ours.torch, best.torch) > 0 or (ours.answer == "install" and best.answer != "install")


def _driver_for(outcome: PlanOutcome) -> str | None:
    question, cuda = outcome.question, outcome.best.candidate.cuda if outcome.best else None
    return wanted_driver(cuda, question.sms, question.side, question.facts) if cuda else None


def _assess_all(question: Question, wheelhouse: Sequence[HouseWheel | GraftRow]) -> PlanOutcome:
    wheels = [each for each in wheelhouse if isinstance(each, HouseWheel)]
    grafts = [each for each in wheelhouse if isinstance(each, GraftRow)]
    outcome = PlanOutcome(question, _assess_wheels(question))
    outcome.wheels += [assess(candidate, question) for candidate in candidates.house_candidates(wheels, question)]
    fitting = [wheel for wheel in outcome.wheels if wheel.feasible]
    torches = [wheel.candidate.torch for wheel in fitting]
    cheapest = min((wheel.cost for wheel in fitting), default=PRICES["build_as_asked"])
    # A build is worth naming beside wheels of which none keeps the asked torch, and beside those that are years behind.
    moved = question.torch is not None and not any(map(question.wants_torch, torches))
    dated = question.torch is None and all(releases_behind(torch, question) > _HELD_BACK for torch in torches)
    if question.wish.build or cheapest >= PRICES["build_as_asked"] or moved or dated:
        outcome.builds = _find_builds(question)
        outcome.grafts += [assess(candidate, question) for candidate in graft_candidates(question, grafts)]
    return outcome


def _assess_wheels(question: Question) -> list[Assessed]:
    """Newest first. Where no torch is asked for and one fits perfectly, only its neighbours are looked at too."""
    wheels: list[Assessed] = []
    stop_at = 0
    for candidate in candidates.official_wheels(question):
        place = question.facts.minors[minor(candidate.torch)]
        if place < stop_at:
            break
        wheels.append(assess(candidate, question, brief=not question.asked))
        if not stop_at and question.torch is None and wheels[-1].feasible and wheels[-1].cost == 0:
            stop_at = max(0, place - _NEIGHBOURS)
    return wheels


def _builds_with_kit(question: Question) -> list[Assessed]:
    """No torch is asked for, but a toolkit is: the newest releases that take it, with the fewest changes."""
    builds: list[Assessed] = []
    for version in question.wanted_releases:
        first = next(iter(assessed_builds(question, (version,), kits=1)), None)
        if first is not None:
            builds.append(first)
        # Of a pair that nobody official made, there may be an older one that somebody did.
        usual = [each for each in builds if all(doubt.code not in _ODD_PAIRS for doubt in each.doubts)]
        as_asked = first is not None and first.feasible and not first.changes and not first.doubts
        if as_asked or sum(assessed.feasible for assessed in usual) >= 2 * _ENOUGH_BUILDS:
            break
    return builds


def _find_builds(question: Question) -> list[Assessed]:
    """The first feasible builds, nearest to the wish first; stops early, since a build is a build."""
    if question.machine.os.system == "macos":
        return []
    wish, free = question.wish, question.torch is None
    builds = _builds_with_kit(question) if free and (wish.cuda or wish.rocm) else []
    feasible = 0
    for version in candidates.buildable_releases(question):
        if feasible >= _ENOUGH_BUILDS and version not in question.wanted_releases:
            break
        built = all(anybody_built(version, sm, question.machine.os.system, question.facts) for sm in question.sms)
        if feasible and free and not built:
            continue  # one untried release is enough; look for one that somebody compiled
        passed = 0
        for assessed in assessed_builds(question, (version,)):
            builds.append(assessed)
            if not assessed.feasible:
                continue
            passed += 1
            if not assessed.changes and not assessed.doubts and not (free and assessed.is_untried):
                return builds
            if passed >= _ENOUGH_BUILDS:
                break
        feasible += passed
        if feasible >= 3 * _ENOUGH_BUILDS and any(
            not (free and build.is_untried) for build in builds if build.feasible
        ):
            break
    return builds


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
    tables = facts or load_facts()
    plan = make_plan(machine, wish, tables)
    asked = Question(machine, msgspec.structs.replace(wish, **{axis: value}), tables)
    check_wish(asked)
    judged = _assess_every_way(asked, with_builds=axis != "variant")
    assessed = [each for each in judged if all(change.what != axis for change in each.changes)]
    assessed.sort(key=lambda each: (not each.feasible, each.cost, len(each.refusals)))
    proposed = f"torch {plan.torch}" + (f"+{plan.variant}" if plan.variant else "") if plan.torch else None
    same = operator.attrgetter("answer", "torch", "variant", "cuda", "rocm", "python")
    blocked = find_obstacle(asked) is not None or asked.cards_are_hopeless
    ways = {each.candidate.answer for each in assessed if each.feasible and not each.changes and not blocked}
    return WhyNot(
        asked=f"{axis}={value}",
        possible=bool(ways),
        way=next((way for way in _WAYS if way in ways), "none"),
        instead=proposed and f"{plan.answer} {proposed}",
        proposed=any(each.feasible and same(each.candidate) == same(plan) for each in assessed),
        considered=tuple(
            Considered(
                **shared_fields(each.candidate, Considered),
                feasible=each.feasible,
                refusals=tuple(refusal for refusal in each.refusals if not refusal.departure),
            )
            for each in assessed[:_MOST]
        ),
    )


def _assess_every_way(question: Question, *, with_builds: bool) -> list[Assessed]:
    wheels = [assess(candidate, question) for candidate in candidates.official_wheels(question)]
    wheels += [assess(candidate, question) for candidate in graft_candidates(question)]
    if not with_builds or question.machine.os.system == "macos":
        return wheels
    version = question.wanted_releases[:1]
    blocked = list(itertools.islice(assessed_builds(question, version, every=True), 2))
    passing = list(itertools.islice(assessed_builds(question, version), 1))
    names = {each.candidate.name for each in passing}
    return wheels + passing + [each for each in blocked if each.candidate.name not in names]
