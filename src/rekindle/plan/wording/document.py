"""From assessed candidates to the finished plan: verdict, reasons, changes, alternatives, warnings."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.model.plan import Alternative, Plan, PlannedFor, Reason, Refusal, Request
from rekindle.plan.assess import Outcome
from rekindle.plan.question import Question
from rekindle.plan.recipe import decide_build, planned_cudnn
from rekindle.plan.rules_gpu import card
from rekindle.plan.steps import build_steps, install_requests, install_steps, lasting_env, numpy_limit
from rekindle.plan.supply import needed_third_parties, supplied_steps, third_party_reason
from rekindle.plan.wording.alternatives import alternative, alternatives, is_guess
from rekindle.plan.wording.because import (
    against_the_wish,
    choice_reasons,
    commonest_refusals,
    explain_change,
    refusal_reasons,
    wheel_instead,
    why_no_wheel,
)
from rekindle.plan.wording.warnings import XPU_INDEX, XPU_PLATFORMS, hopeless_cards, warnings_for
from rekindle.scripts.spell import spell


def compose(outcome: Outcome, notices: Sequence[Reason] = ()) -> Plan:
    """The plan as a document: the best candidate with its reasons, or why there is none. ``notices`` are warnings that
    no candidate gave rise to."""
    question = outcome.question
    best = outcome.best
    if best is None:
        plain = outcome.obstacle is not None or question.cards_are_hopeless
        return _no(outcome, [] if plain else against_the_wish(outcome), notices)
    candidate = best.candidate
    no_build = question.wish.build and candidate.answer == "install"
    against = against_the_wish(outcome) if best.changes or no_build else []
    departures = {refusal.change.what for refusal in best.refusals if refusal.departure and refusal.change}
    changes = tuple(explain_change(change, departures, against, candidate) for change in best.changes)
    if no_build:
        changes = (*changes, wheel_instead(against))
    system = question.machine.os.system
    because = [*choice_reasons(best, question), *refusal_reasons(against)]
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


def _no(outcome: Outcome, against: list[Refusal], notices: Sequence[Reason]) -> Plan:
    """Nothing fits. Say what is in the way, and name the nearest thing that does fit."""
    question = outcome.question
    if outcome.obstacle is not None:
        obstacle = outcome.obstacle
        text = f"{obstacle.text} The nearest that works: {obstacle.instead}."
        because = [Reason(code=obstacle.code, text=text, source=obstacle.source)]
    else:
        because = [*hopeless_cards(question), *refusal_reasons(against)] or refusal_reasons(commonest_refusals(outcome))
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
