"""From assessed candidates to the finished plan: verdict, reasons, changes, alternatives, warnings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rekindle.compat import BACKENDS, flavour_backend
from rekindle.model.plan import Alternative, Change, Plan, PlannedFor, Reason, Refusal, Request
from rekindle.model.spoken import capital, sentence
from rekindle.plan.alternatives import alternative, alternatives, is_guess
from rekindle.plan.assess import assessed_builds
from rekindle.plan.candidate import Candidate
from rekindle.plan.caveats import XPU_INDEX, XPU_PLATFORMS, hopeless_cards, warnings_for
from rekindle.plan.outcome import Outcome
from rekindle.plan.question import Question
from rekindle.plan.reasons import choice_reasons, why_no_wheel
from rekindle.plan.recipe import decide_build, planned_cudnn
from rekindle.plan.rules import RULES
from rekindle.plan.rules_gpu import card
from rekindle.plan.steps import build_steps, install_requests, install_steps, lasting_env, numpy_limit
from rekindle.plan.supply import needed_third_parties, supplied_steps, third_party_reason
from rekindle.scripts.spell import spell

_MANY = 6


def compose(outcome: Outcome, notices: Sequence[Reason] = ()) -> Plan:
    """The plan as a document: the best candidate with its reasons, or why there is none. ``notices`` are warnings that
    no candidate gave rise to."""
    question = outcome.question
    best = outcome.best
    if best is None:
        plain = outcome.obstacle is not None or question.cards_are_hopeless
        return _no(outcome, [] if plain else _against_the_wish(outcome), notices)
    candidate = best.candidate
    no_build = question.wish.build and candidate.answer == "install"
    against = _against_the_wish(outcome) if best.changes or no_build else []
    departures = {refusal.change.what for refusal in best.refusals if refusal.departure and refusal.change}
    changes = tuple(_explained(change, departures, against, candidate) for change in best.changes)
    if no_build:
        changes = (*changes, _wheel_instead(against))
    system = question.machine.os.system
    because = [*choice_reasons(best, question), *_reasons(against)]
    requests: tuple[Request, ...] = ()
    env: dict[str, str] = {}
    if candidate.answer == "build":
        build = decide_build(best, question)
        recipe, cudnn = build.recipe, build.cudnn
        warnings = [*warnings_for(best, outcome, cudnn), *needed_third_parties(build.third_parties, candidate)]
        if build.lacks_cudnn is not None:
            warnings.append(build.lacks_cudnn)
        if not question.wish.build:
            because = [*why_no_wheel(outcome), *because]
        if build.third_parties:
            because.append(third_party_reason(build.third_parties, candidate, recipe.origin))
            steps = supplied_steps(candidate, recipe.packages, question)
        else:
            steps = build_steps(candidate, recipe, question, cudnn)
    else:
        recipe, cudnn = None, planned_cudnn(candidate, question)
        requests, left_out = install_requests(best, question)
        env = lasting_env(best)
        warnings = [*warnings_for(best, outcome, cudnn), *left_out]
        steps = install_steps(requests, env, candidate.python, system)
    return Plan(
        answer=candidate.answer,
        as_asked=not (changes or outcome.unserved or question.hopeless_gpus or is_guess(best)),
        torch=candidate.torch,
        variant=candidate.flavour.name if candidate.flavour else None,
        cuda=candidate.cuda,
        rocm=candidate.rocm,
        cudnn=cudnn,
        python=candidate.python,
        numpy=numpy_limit(candidate, question) or ">=1.26",
        arch_list=recipe.arch_list if recipe else (),
        requests=requests,
        env=env,
        steps=tuple(steps),
        commands=spell(steps, "cmd" if system == "windows" else "sh"),
        because=tuple(because),
        changes=changes,
        build=recipe,
        alternatives=alternatives(outcome, best),
        warnings=(*warnings, *notices),
        evidence=best.evidence.grade if recipe and best.evidence else None,
        asked=question.asked,
        powershell=spell(steps, "powershell") if system == "windows" else (),
        os=PlannedFor(system=system, arch=question.arch),
    )


# Which departure a rule's refusal explains, best first (docs/rules.md has the rules by their numbers).
_EXPLAINS = {
    "cuda": ("R111", "R201", "R202", "R102", "R115", "R204", "R206"),
    "rocm": ("R114", "R116", "R118", "R205"),
    "torch": ("R112", "R113", "R101", "R103", "R401", "R301", "R302", "R111", "R114", "R102", "R002", "R204", "R201"),
    "variant": ("R002", "R101", "R103", "R102", "R401", "R301", "R204"),
}


def _explained(change: Change, departures: set[str], against: list[Refusal], candidate: Candidate) -> Change:
    """A departure from the wish gets the reason the asked value was refused for."""
    if change.what not in departures:
        return change
    rules = _EXPLAINS.get(change.what, ())
    if candidate.answer == "install":  # what is wrong with the asked wheel comes before what is wrong with a build
        rules = tuple(sorted(rules, key=lambda number: "install" not in RULES[number].applies))
    fitting = [refusal for refusal in against if refusal.rule in rules]
    if not fitting:
        return change
    best = min(fitting, key=lambda refusal: rules.index(refusal.rule or ""))
    return Change(what=change.what, from_=change.from_, to=change.to, why=best.reason)


def _wheel_instead(against: list[Refusal]) -> Change:
    """A build was insisted on and none is possible: a wheel is not what was asked for, and the reason comes with it."""
    in_the_way = [one for one in against if one.rule in RULES and "build" in RULES[one.rule].applies]
    why = in_the_way[0].reason if in_the_way else "no build is known to work here."
    return Change(what="build", from_="from source", to="a published wheel", why=why)


def _against_the_wish(outcome: Outcome) -> list[Refusal]:
    """Why the wish as it stands does not work: what was refused about the candidates nearest to it."""
    question = outcome.question
    found: list[Refusal] = []
    asked_flavour = question.flavour
    wheels = [assessed for assessed in outcome.wheels if question.wants_torch(assessed.candidate.torch)]
    if asked_flavour is not None:
        exact = [each for each in wheels if each.candidate.flavour and each.candidate.flavour.name == asked_flavour]
        if not exact:
            found.append(_never_published(question, asked_flavour))
        wheels = exact or wheels
    elif question.torch is not None and not wheels and not question.wish.build:
        found.append(_no_wheel_of(question))
    if question.wish.cuda:
        same = [assessed for assessed in wheels if all(change.what != "cuda" for change in assessed.changes)]
        wheels = same or wheels
    if not question.wish.build and set(question.asked) & {"torch", "variant", "cuda", "rocm"}:
        nearest = sorted(wheels, key=lambda each: sum(not refusal.departure for refusal in each.refusals))
        for assessed in nearest[:2]:
            found += [refusal for refusal in assessed.refusals if not refusal.departure]
    wants_build = question.wish.build or question.wish.cuda or question.wish.compiler or question.wish.rocm
    if (wants_build and asked_flavour is None) or question.torch is not None:
        version = question.wanted_releases[:1] if question.torch else _built_version(outcome)
        for assessed in itertools.islice(assessed_builds(question, version, every=True), 1):
            found += [refusal for refusal in assessed.refusals if not refusal.departure]
    if question.wish.cudnn:
        found += [refusal for assessed in wheels[:1] for refusal in assessed.refusals if refusal.rule == "R004"]
    unique = {(refusal.code, refusal.reason): refusal for refusal in found}
    return list(unique.values())[:_MANY]


def _built_version(outcome: Outcome) -> tuple[str, ...]:
    best = outcome.best
    return (best.candidate.torch,) if best else outcome.question.wanted_releases[:1]


def _never_published(question: Question, flavour: str) -> Refusal:
    version = question.wanted_releases[0]
    names = [
        row.name
        for row in question.facts.flavours(version)
        if question.platform in BACKENDS[flavour_backend(row)].platforms(row)
    ]
    there = f"torch {version} was not published as {flavour} for {question.platform}; there are {', '.join(names)}."
    return Refusal(
        rule="R002",
        code="flavour-never-published",
        what=f"torch {version}+{flavour}",
        reason=there if names else f"no wheel of torch {version} for {question.platform} is known here.",
        source="https://pytorch.org/get-started/previous-versions",
    )


def _no_wheel_of(question: Question) -> Refusal:
    version = question.wanted_releases[0]
    kind = {"cuda": "CUDA", "rocm": "ROCm", "cpu": "CPU"}[question.backend]
    where = question.platform.replace("_", " ")
    return Refusal(
        rule="R002",
        code="release-never-published",
        what=f"torch {version}",
        reason=f"no {kind} wheel of torch {version} was published for {where}.",
        source="https://pytorch.org/get-started/previous-versions",
    )


def _reasons(refusals: list[Refusal]) -> list[Reason]:
    return [
        Reason(
            code=refusal.code,
            text=capital(refusal.reason) + (f" {sentence(refusal.remedy)}" if refusal.remedy else ""),
            source=refusal.source,
        )
        for refusal in refusals
    ]


def _no(outcome: Outcome, against: list[Refusal], notices: Sequence[Reason]) -> Plan:
    """Nothing fits. Say what is in the way, and name the nearest thing that does fit."""
    question = outcome.question
    if outcome.obstacle is not None:
        obstacle = outcome.obstacle
        text = f"{obstacle.text} The nearest that works: {obstacle.instead}."
        because = [Reason(code=obstacle.code, text=text, source=obstacle.source)]
    else:
        because = [*hopeless_cards(question), *_reasons(against)] or _reasons(_commonest(outcome))
    if outcome.apart is not None:
        because.insert(0, outcome.apart)
    names = ", ".join(card(gpu) for gpu in question.machine.gpus) or "this machine"
    nothing = Reason(code="nothing-fits", text=f"No torch that we know of runs on {names} as asked.")
    return Plan(
        answer="none",
        as_asked=False,
        because=tuple(because) or (nothing,),
        alternatives=(*_xpu(question), *(alternative(near.best, f"{near.why}: ") for near in outcome.nearest)),
        warnings=tuple(notices),
        asked=question.asked,
        os=PlannedFor(system=question.machine.os.system, arch=question.arch),
    )


def _xpu(question: Question) -> tuple[Alternative, ...]:
    """Intel's cards have wheels of their own, which the tables do not judge."""
    if all(gpu.vendor != "intel" for gpu in question.machine.gpus) or question.platform not in XPU_PLATFORMS:
        return ()
    why = f"for Intel Arc and Data Center GPUs, not judged here: pip install torch --index-url {XPU_INDEX}"
    return (Alternative(answer="install", torch=question.facts.releases[0], variant="xpu", why=why),)


def _commonest(outcome: Outcome) -> list[Refusal]:
    found: dict[str, Refusal] = {}
    for assessed in (*outcome.builds, *outcome.wheels):
        for refusal in assessed.refusals:
            if refusal.change is None and refusal.certain:
                found.setdefault(refusal.code, refusal)
    return list(found.values())[:_MANY]
