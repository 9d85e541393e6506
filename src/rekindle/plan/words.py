"""From assessed candidates to the finished plan: verdict, reasons, changes, alternatives, warnings."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from rekindle.model.facts import Platform
from rekindle.model.plan import Alternative, Change, Plan, Reason, Refusal
from rekindle.model.version import minor
from rekindle.plan.assess import assessed_builds
from rekindle.plan.candidate import Assessed, Candidate
from rekindle.plan.cost import ANCIENT_RELEASES
from rekindle.plan.question import Question
from rekindle.plan.reasons import choice_reasons, cpu_plan_reasons, warnings_for
from rekindle.plan.recipe import make_recipe, planned_cudnn
from rekindle.plan.rules_gpu import card
from rekindle.plan.shell import spell
from rekindle.plan.steps import build_steps, install_requests, install_steps, lasting_env, numpy_limit

if TYPE_CHECKING:
    from rekindle.plan.solve import Outcome

_MANY = 6


def compose(outcome: Outcome) -> Plan:
    question = outcome.question
    best = outcome.best
    settled = question.cards_are_hopeless or (best is not None and not best.changes)
    against = [] if settled else _against_the_wish(outcome)
    if best is None:
        return _no(outcome, against)
    candidate = best.candidate
    changes = tuple(_explained(change, against, candidate) for change in best.changes)
    recipe = make_recipe(best, question) if candidate.answer == "build" else None
    system = question.machine.os.system
    requests = () if recipe else install_requests(best, question)
    env = {} if recipe else lasting_env(best)
    steps = (
        build_steps(candidate, recipe, question) if recipe else install_steps(requests, env, candidate.python, system)
    )
    because = [*choice_reasons(best, question), *_reasons(against)]
    return Plan(
        answer=candidate.answer,
        as_asked=not (changes or outcome.unserved or question.hopeless_gpus or _is_guess(best)),
        torch=candidate.torch,
        variant=candidate.flavour.name if candidate.flavour else None,
        cuda=candidate.cuda,
        rocm=candidate.rocm,
        cudnn=planned_cudnn(candidate, question),
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
        alternatives=_alternatives(outcome, best),
        warnings=tuple(warnings_for(best, outcome)),
    )


def _explained(change: Change, against: list[Refusal], candidate: Candidate) -> Change:
    """A departure from the wish gets the reason the asked value was refused for."""
    if not change.why.endswith("was asked for."):
        return change
    for refusal in against:
        if change.what in ("torch", "variant", "cuda", "rocm"):
            return Change(what=change.what, from_=change.from_, to=change.to, why=refusal.reason)
    return change


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
    if question.wish.cuda:
        same = [assessed for assessed in wheels if all(change.what != "cuda" for change in assessed.changes)]
        wheels = same or wheels
    if question.torch is not None or asked_flavour is not None or question.wish.cuda or question.wish.rocm:
        for assessed in wheels[:2]:
            found += [refusal for refusal in assessed.refusals if not _is_departure(refusal)]
    wants_build = question.wish.build or question.wish.cuda or question.wish.compiler or question.wish.rocm
    if (wants_build and asked_flavour is None) or question.torch is not None:
        version = question.wanted_releases[:1] if question.torch else _built_version(outcome)
        for assessed in itertools.islice(assessed_builds(question, version, every=True), 1):
            found += [refusal for refusal in assessed.refusals if not _is_departure(refusal)]
    if question.wish.cudnn:
        found += [refusal for assessed in wheels[:1] for refusal in assessed.refusals if refusal.rule == "R004"]
    unique = {(refusal.code, refusal.reason): refusal for refusal in found}
    return list(unique.values())[:_MANY]


def _built_version(outcome: Outcome) -> tuple[str, ...]:
    best = outcome.best
    return (best.candidate.torch,) if best else outcome.question.wanted_releases[:1]


def _is_departure(refusal: Refusal) -> bool:
    """Only says that something differs from the wish, and not why."""
    return (refusal.rule or "").startswith("R00") and refusal.source is None


def _never_published(question: Question, flavour: str) -> Refusal:
    version = question.wanted_releases[0]
    names = [row.name for row in question.facts.flavours(version) if question.platform in _platforms(row)]
    return Refusal(
        rule="R002",
        code="flavour-never-published",
        what=f"torch {version}+{flavour}",
        reason=f"torch {version} was not published as {flavour} for {question.platform}; there are {', '.join(names)}.",
        source="https://pytorch.org/get-started/previous-versions",
    )


def _platforms(row: object) -> tuple[Platform, ...]:
    from rekindle.compat import BACKENDS, flavour_backend
    from rekindle.model.facts import Flavour

    assert isinstance(row, Flavour)
    return BACKENDS[flavour_backend(row)].platforms(row)


def _reasons(refusals: list[Refusal]) -> list[Reason]:
    return [
        Reason(
            code=refusal.code,
            text=refusal.reason
            + (f" {refusal.remedy[0].upper()}{refusal.remedy[1:].rstrip('.')}." if refusal.remedy else ""),
            source=refusal.source,
        )
        for refusal in refusals
    ]


def _alternatives(outcome: Outcome, best: Assessed) -> tuple[Alternative, ...]:
    """A few that differ in kind: each keeps something the best one gives up."""
    chosen: list[Alternative] = []
    seen = {_signature(best)}
    kinds: set[tuple[str, ...]] = {_kind(best)}
    for assessed in outcome.feasible:
        if assessed is best or len(chosen) >= 5:
            continue
        kind = _kind(assessed)
        if best.candidate.answer == "install" and _is_poor(assessed, best, outcome.question):
            continue
        if _signature(assessed) in seen or kind in kinds:
            continue
        kinds.add(kind)
        seen.add(_signature(assessed))
        chosen.append(_alternative(assessed))
    for kept, assessed in outcome.partial:
        if assessed.candidate.answer == "install":
            names = ", ".join(card(gpu) for gpu in kept)
            only = msgspec.structs.replace(_alternative(assessed), why=f"an official wheel, but it serves only {names}")
            chosen.append(only)
    if outcome.question.backend != "cpu":
        chosen.append(
            Alternative(
                answer="install", torch=best.candidate.torch, variant="cpu", why="without the GPU: the CPU wheel"
            )
        )
    return tuple(chosen)


def _is_guess(assessed: Assessed) -> bool:
    """The wheel has no machine code for a card: whether the driver can make some is anyone's guess."""
    return any(refusal.code == "gpu-only-ptx" for refusal in assessed.doubts)


def _is_poor(assessed: Assessed, best: Assessed, question: Question) -> bool:
    """Beside a good wheel: PTX that may not compile, or a torch of another age nobody asked for."""
    if _is_guess(assessed):
        return True
    order = question.facts.minors
    behind = order[minor(best.candidate.torch)] - order[minor(assessed.candidate.torch)]
    return question.torch is None and behind > ANCIENT_RELEASES


def _kind(assessed: Assessed) -> tuple[str, ...]:
    candidate = assessed.candidate
    changed = sorted(change.what for change in assessed.changes)
    kit = (candidate.cuda or candidate.rocm or "").split(".")[0] if "torch" not in changed else ""
    return (candidate.answer, kit, *changed)


def _signature(assessed: Assessed) -> tuple[str | None, ...]:
    candidate = assessed.candidate
    return candidate.answer, candidate.torch, candidate.flavour.name if candidate.flavour else candidate.cuda


def _alternative(assessed: Assessed) -> Alternative:
    candidate = assessed.candidate
    changes = assessed.changes
    parts = [f"{change.what} {change.from_} → {change.to}" for change in changes]
    notes = [coverage.text for _, coverage in assessed.covered if coverage.kind in ("override", "jit")]
    doubts = [refusal.reason for refusal in assessed.doubts if refusal.reason not in notes]
    why = (
        "; ".join(parts) if parts else ("keeps everything asked" if candidate.answer == "install" else "a source build")
    )
    if notes or doubts:
        why += " (" + " ".join((notes or doubts)[:1]) + ")"
    driver = next((change.to for change in changes if change.what == "driver"), None)
    return Alternative(
        answer=candidate.answer,
        torch=candidate.torch,
        variant=candidate.flavour.name if candidate.flavour else None,
        cuda=candidate.cuda,
        rocm=candidate.rocm,
        python=candidate.python,
        compiler=candidate.compiler,
        driver=driver,
        why=why,
    )


def _no(outcome: Outcome, against: list[Refusal]) -> Plan:
    """Nothing serves the cards. Say so, and name the CPU wheel as what is left."""
    question = outcome.question
    because = [*cpu_plan_reasons(question), *_reasons(against)]
    if not because:
        because = _reasons(_commonest(outcome))
    names = ", ".join(card(gpu) for gpu in question.machine.gpus) or "this machine"
    return Plan(
        answer="none",
        as_asked=False,
        because=tuple(because) or (Reason(code="nothing-fits", text=f"No torch that we know of runs on {names}."),),
        alternatives=(
            Alternative(answer="install", torch=_cpu_release(question), variant="cpu", why="on the CPU alone it runs"),
        ),
        warnings=(),
    )


def _cpu_release(question: Question) -> str:
    for version in (*question.wanted_releases, *question.facts.releases):
        row = question.facts.release(version)
        if row and question.platform in row.pythons and any(f.name == "cpu" for f in question.facts.flavours(version)):
            return version
    return question.facts.releases[0]


def _commonest(outcome: Outcome) -> list[Refusal]:
    found: dict[str, Refusal] = {}
    for assessed in (*outcome.builds, *outcome.wheels):
        for refusal in assessed.refusals:
            if refusal.change is None and refusal.certain:
                found.setdefault(refusal.code, refusal)
    return list(found.values())[:_MANY]
