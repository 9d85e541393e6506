"""Applies every rule to a candidate and keeps what they said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rekindle.compat.toolkit import emits_for
from rekindle.plan import (  # they register themselves
    rules_gpu,
    rules_jetson,
    rules_resources,
    rules_rocm,
    rules_system,
    rules_toolchain,
    rules_wish,
)
from rekindle.plan.candidate import Assessed, Candidate
from rekindle.plan.candidates import builds, choose_python
from rekindle.plan.compilers import choose
from rekindle.plan.cost import cost
from rekindle.plan.evidence import evidence, weakest
from rekindle.plan.hazards import met
from rekindle.plan.question import Question
from rekindle.plan.rules import refusals

__all__ = ["assess", "assessed_builds", "rules_resources", "rules_system", "rules_wish", "with_hazards"]

# Looked at before a compiler is searched for: most candidates end here.
_VERSION_CHECKS = (rules_gpu.sources_take_arch, rules_gpu.sources_still_compile)
_KIT_CHECKS = (
    rules_gpu.toolkit_targets_cards,
    rules_rocm.rocm_knows_target,
    rules_jetson.jetpack_offers_cuda,
    rules_toolchain.toolkit_is_new_enough,
    rules_toolchain.toolkit_runs_here,
)


def assess(candidate: Candidate, question: Question, *, brief: bool = False) -> Assessed:
    """Everything against a candidate. ``brief``: a wheel without code for a card needs no second reason; most wheels
    end there."""
    first = list(rules_gpu.wheel_has_code(candidate, question)) if brief and candidate.flavour else []
    hopeless = any(refusal.certain for refusal in first)
    assessed = Assessed(candidate, first if hopeless else list(refusals(candidate, question)))
    assessed.settle()
    if hopeless:
        return assessed
    if candidate.flavour is not None and candidate.backend != "cpu":
        assessed.covered += rules_gpu.coverages(candidate, question)
    if candidate.answer == "build" and candidate.cuda:
        system = question.machine.os.system
        targets = [emits_for(candidate.cuda, sm, question.facts) or sm for sm in question.sms]
        found = [evidence(candidate.torch, candidate.cuda, sm, system, question.facts) for sm in targets]
        assessed.evidence = weakest(found)
    assessed.cost = cost(assessed, question)
    return assessed


def with_hazards(assessed: Assessed, question: Question) -> Assessed:
    """Look up the warnings too; only the few candidates that are shown need them."""
    assessed.hazards = [hazard for hazard in met(assessed.candidate, question) if hazard.effect == "warns"]
    return assessed


def assessed_builds(
    question: Question, versions: tuple[str, ...], *, every: bool = False, kits: int | None = None
) -> Iterator[Assessed]:
    """Builds, assessed. The compiler is looked for only where the toolkit passes, unless ``every`` is wanted;
    ``kits`` limits how many toolkits are tried per release (the asked one is the first).
    """
    if not every:
        versions = tuple(version for version in versions if _version_passes(version, question))
    for candidate in builds(question, versions, kits=kits):
        if not every and any(True for check in _KIT_CHECKS for _ in check(candidate, question)):
            continue
        candidate = replace(candidate, python=choose_python(candidate, question))
        yield assess(replace(candidate, compiler=choose(candidate, question)), question)


def _version_passes(version: str, question: Question) -> bool:
    """Do the sources take the cards, whatever the toolkit?"""
    bare = Candidate(answer="build", torch=version, backend=question.backend)
    return not any(True for check in _VERSION_CHECKS for _ in check(bare, question))
