"""The finished plan as a document, composed once; and alternatives, each of which keeps what the best way gives up."""

from collections.abc import Iterable, Sequence

import msgspec

from rekindle.model.document import shared_fields
from rekindle.model.plan import Alternative, BuildRecipe, Plan, PlannedFor, Reason, Refusal, Request
from rekindle.model.version import minor
from rekindle.plan.assess import ANCIENT_RELEASES, GroupPlan, PlanOutcome, is_guess, with_hazards
from rekindle.plan.candidates import Assessed
from rekindle.plan.grafts import graft_steps, spoken_graft
from rekindle.plan.question import Question
from rekindle.plan.rules import say
from rekindle.plan.rules_gpu import card
from rekindle.plan.steps import build_steps, install_requests, install_steps, lasting_env, numpy_limit
from rekindle.plan.wording import because as said
from rekindle.plan.wording.warnings import hopeless_cards, warnings_for
from rekindle.scripts.quoting import spell

_WAYS = {
    "install": "an official wheel",
    "graft": "the official wheel with code for the card",
    "build": "a source build",
}


def compose_plan(outcome: PlanOutcome, notices: Sequence[Reason] = ()) -> Plan:
    """The best candidate with its reasons, or why there is none; ``notices`` are warnings about the question itself."""
    question, best = outcome.question, outcome.best
    if best is None:
        plain = outcome.obstacle is not None or question.cards_are_hopeless
        return _compose_no(outcome, [] if plain else said.against_the_wish(outcome), notices)
    candidate = with_hazards(best, question).candidate
    no_build = question.wish.build and candidate.answer == "install"
    against = said.against_the_wish(outcome) if best.changes or no_build else []
    departures = {refusal.change.what for refusal in best.refusals if refusal.departure and refusal.change}
    changes = [said.explain_change(change, departures, against, candidate) for change in best.changes]
    changes += [said.wheel_instead(against)] if no_build else []
    system = question.machine.os.system
    because = [*said.choice_reasons(best, question), *said.refusal_reasons(against)]
    if best.graft is not None or (candidate.answer == "build" and not question.wish.build):
        because = [*said.why_no_wheel(outcome), *because]
    requests: tuple[Request, ...] = ()
    env = lasting_env(best, question)
    recipe: BuildRecipe | None = None
    if candidate.answer == "build":
        # Only a build needs them, and most plans are of wheels.
        from rekindle.plan.recipe import decide_build
        from rekindle.plan.supply import supplied_steps, third_party_reason

        build = decide_build(best, question)
        recipe, cudnn = build.recipe, build.cudnn
        warnings = list(warnings_for(best, outcome, cudnn))
        for row in (row for row in build.third_parties if candidate.backend in row.stops):
            why = row.stops[candidate.backend]
            warnings.append(say("third-party-needed", row=row, why=why, source=row.source[0]))
        warnings += [build.lacks_cudnn] if build.lacks_cudnn else []
        if build.third_parties:
            because.append(third_party_reason(build.third_parties, candidate, recipe.origin))
            steps = supplied_steps(candidate, recipe.packages, question)
        else:
            steps = build_steps(candidate, recipe, question, cudnn=cudnn, blas_folder=build.blas_folder)
    else:
        cudnn = candidate.flavour.cudnn if candidate.cuda and candidate.flavour else None
        requests, left_out = install_requests(best, question)
        warnings = [*warnings_for(best, outcome, cudnn), *left_out]
        if best.graft is not None:
            steps = graft_steps(best.graft, requests[0], candidate, question)
        else:
            steps = install_steps(requests, env, candidate.python, system)

    # Is a card left out that nobody said may be?
    leaves_out = bool(outcome.unserved) and (outcome.whole is None or question.wish.serve != "newest")
    return Plan(
        **shared_fields(candidate, Plan),
        as_asked=not (changes or leaves_out or question.bought_in_vain or is_guess(best)),
        cudnn=cudnn,
        numpy=numpy_limit(candidate, question) or ">=1.26",
        arch_list=recipe.arch_list if recipe else (),
        requests=requests,
        env=env,
        steps=tuple(steps),
        commands=spell(steps, "cmd" if system == "windows" else "sh"),
        because=tuple(because),
        changes=tuple(changes),
        build=recipe,
        graft=best.graft,
        alternatives=alternatives(outcome, best),
        warnings=(*warnings, *notices),
        evidence=best.evidence.grade if best.evidence and (recipe or best.graft) else None,
        asked=question.asked,
        powershell=spell(steps, "powershell") if system == "windows" else (),
        os=PlannedFor(system=system, arch=question.arch),
    )


def _compose_no(outcome: PlanOutcome, against: list[Refusal], notices: Sequence[Reason]) -> Plan:
    """Nothing fits. Say what is in the way, and name the nearest thing that does fit."""
    question = outcome.question
    because = [outcome.obstacle] if outcome.obstacle else [*hopeless_cards(question), *said.refusal_reasons(against)]
    because = because or said.refusal_reasons(said.commonest_refusals(outcome))
    because = [outcome.driver_clash, *because] if outcome.driver_clash else because
    names = ", ".join(card(gpu) for gpu in question.machine.gpus) or "this machine"
    return Plan(
        answer="none",
        as_asked=False,
        because=tuple(because) or (say("nothing-fits", names=names),),
        alternatives=tuple(alternative(near, f"{why}: ") for why, near in outcome.nearest),
        warnings=tuple(notices),
        asked=question.asked,
        os=PlannedFor(system=question.machine.os.system, arch=question.arch),
    )


def alternatives(outcome: PlanOutcome, best: Assessed) -> tuple[Alternative, ...]:
    """A few that differ in kind: each keeps something the best one gives up."""
    chosen: list[Alternative] = []
    signatures, kinds = {_signature(best)}, {_way_kind(best)}
    # Where the plan serves a part of the cards, so does what stands beside it.
    served = [card(gpu) for gpu in outcome.question.gpus if gpu not in outcome.unserved] if outcome.unserved else []
    lead = f"for {', '.join(served)}: " if served else ""
    for assessed in outcome.feasible:
        if len(chosen) >= 5:
            break
        if assessed is best or (is_guess(assessed) and not is_guess(best)):
            continue
        if best.candidate.answer == "install" and _is_poor(assessed, best, outcome.question):
            continue
        kind = _way_kind(assessed)
        if best.candidate.answer == "build" and assessed.is_untried and not best.is_untried:
            kind = (*kind, "untried")  # newer than what somebody compiled
        if _signature(assessed) in signatures or kind in kinds:
            continue
        kinds |= {kind}
        signatures |= {_signature(assessed)}
        chosen.append(alternative(assessed, lead, best.candidate.python))
    if outcome.whole is not None:
        chosen.insert(0, _group_alternative(outcome.whole, "all cards"))
    chosen += [_group_alternative(alone, f"{', '.join(map(card, alone.gpus))} alone") for alone in outcome.alone]

    def add(ways: Iterable[Assessed], lead: str) -> None:
        way = next((way for way in ways if not is_guess(way)), None)
        if way is not None and _signature(way) not in signatures:
            chosen.append(alternative(way, lead))

    if best.candidate.flavour is not None and best.candidate.flavour.status != "stable":
        stable = (way for way in outcome.feasible if way.candidate.flavour and way.candidate.flavour.status == "stable")
        add(stable, "the newest whose flavour PyTorch calls stable: ")
    chosen += [alternative(near, f"{why}: ") for why, near in outcome.nearest]
    if any(change.what == "driver" for change in best.changes):
        same = (way for way in outcome.feasible if all(change.what != "driver" for change in way.changes))
        add(same, "with the driver as it is: ")  # however old that torch is
    if outcome.question.backend != "cpu":
        why = "without the GPU: the CPU wheel"
        chosen.append(Alternative(answer="install", torch=best.candidate.torch, variant="cpu", why=why))
    return tuple(chosen)


def _group_alternative(alone: GroupPlan, names: str) -> Alternative:
    driver = f", with NVIDIA driver {alone.driver}" if alone.driver else ""
    only = alternative(alone.best, f"for {names}{driver}: ")
    return msgspec.structs.replace(only, driver=only.driver or alone.driver)


def _is_poor(assessed: Assessed, best: Assessed, question: Question) -> bool:
    """Beside a good wheel: PTX that may not compile, or a torch of another age nobody asked for."""
    order = question.facts.minors
    behind = order[minor(best.candidate.torch)] - order[minor(assessed.candidate.torch)]
    return is_guess(assessed) or (question.torch is None and behind > ANCIENT_RELEASES)


def _way_kind(assessed: Assessed) -> tuple[str, ...]:
    candidate = assessed.candidate
    if candidate.answer == "graft":
        return ("graft",)  # the best of them is enough
    changed = sorted(change.what for change in assessed.changes)
    kit = (candidate.cuda or candidate.rocm or "").split(".")[0] if "torch" not in changed else ""
    return (candidate.answer, kit, *changed)


def _signature(assessed: Assessed) -> tuple[str | None, ...]:
    candidate = assessed.candidate
    return candidate.answer, candidate.torch, candidate.variant or candidate.cuda


def alternative(assessed: Assessed, lead: str = "", beside: str | None = None) -> Alternative:
    """``beside``: the Python of the best way; another one is named."""
    candidate = assessed.candidate
    changes = assessed.changes
    parts = [f"{change.what} {change.from_} → {change.to}" for change in changes if change.what != "machine"]
    notes = [coverage.text for _, coverage in assessed.covered if coverage.kind in ("override", "jit")]
    doubts = [refusal.reason for refusal in assessed.doubts if refusal.reason not in notes]
    why = "; ".join(parts) if parts else _WAYS[candidate.answer]
    if beside and candidate.python and candidate.python != beside and all(c.what != "python" for c in changes):
        why += f", for Python {candidate.python}"
    if assessed.graft is not None:
        why += spoken_graft(assessed.graft)
    if candidate.answer != "install" and assessed.evidence is not None:
        why += f", evidence: {assessed.evidence.grade}"
    if notes or doubts:
        why += " (" + " ".join((notes or doubts)[:1]) + ")"
    driver = next((change.to for change in changes if change.what == "driver"), None)
    return Alternative(**shared_fields(candidate, Alternative), driver=driver, why=lead + why)
