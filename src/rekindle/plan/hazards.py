"""Which known hazards a candidate meets on the machine of the question."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from rekindle.compat.hazards import Combination, Surroundings, machine_meets, torch_meets
from rekindle.model.facts import Hazard
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question


def met(candidate: Candidate, question: Question) -> Iterator[Hazard]:
    kind = "wheel" if candidate.answer == "install" else "build"
    made = _combination(candidate, question)
    for hazard in _possible(question):
        if hazard.concerns in (kind, "both") and torch_meets(hazard, made):
            yield hazard


def cured(hazard: Hazard) -> bool:
    """A patch of ours takes it away: no reason to refuse a compiler, but the sources change."""
    return hazard.effect == "breaks" and hazard.patch is not None


@functools.lru_cache(maxsize=64)
def _possible(question: Question) -> tuple[Hazard, ...]:
    """Those whose conditions on the machine hold; the rest is up to the candidate."""
    machine = _surroundings(question)
    return tuple(hazard for hazard in question.facts.hazards.hazard if machine_meets(hazard, machine))


def _surroundings(question: Question) -> Surroundings:
    return Surroundings(
        system=question.machine.os.system,
        arch=question.arch,
        glibc=question.glibc,
        cpu_features=question.cpu_features,
        sms=question.sms,
        tegra=question.tegra,
    )


def _combination(candidate: Candidate, question: Question) -> Combination:
    return Combination(
        torch=candidate.torch,
        backend=candidate.backend,
        flavour=candidate.flavour.name if candidate.flavour else None,
        cuda=candidate.cuda,
        rocm=candidate.rocm,
        python=candidate.python,
        compiler=candidate.compiler,
        toolkit_folders=question.machine.cuda_folders(candidate.cuda) if candidate.cuda else (),
    )
