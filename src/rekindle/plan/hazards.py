"""Which known hazards a candidate meets. A condition nobody can check (an unknown glibc) does not match."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.model.arch import parse_sm
from rekindle.model.facts import Hazard
from rekindle.model.version import matches
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question


def met(candidate: Candidate, question: Question) -> Iterator[Hazard]:
    for hazard in question.facts.hazards.hazard:
        if applies(hazard, candidate, question):
            yield hazard


def applies(hazard: Hazard, candidate: Candidate, question: Question) -> bool:
    kind = "wheel" if candidate.answer == "install" else "build"
    if hazard.concerns not in (kind, "both"):
        return False
    if hazard.torch is not None and not matches(candidate.torch, hazard.torch):
        return False
    if hazard.backend and candidate.backend not in hazard.backend:
        return False
    if hazard.os and question.machine.os.system not in hazard.os:
        return False
    if hazard.arch and question.arch not in hazard.arch:
        return False
    if hazard.flavour and (candidate.flavour is None or candidate.flavour.name not in hazard.flavour):
        return False
    if not _version(hazard.cuda, candidate.cuda) or not _version(hazard.rocm, candidate.rocm):
        return False
    if not _version(hazard.python, candidate.python) or not _version(hazard.glibc, question.glibc):
        return False
    if hazard.compiler is not None and not _compiler(hazard, candidate.compiler):
        return False
    if hazard.cpu_lacks and not question.cpu_lacks(hazard.cpu_lacks):
        return False
    if hazard.sm is not None and parse_sm(hazard.sm) not in question.sms:
        return False
    return hazard.tegra is None or hazard.tegra == question.tegra


def _version(spec: str | None, value: str | None) -> bool:
    return spec is None or (value is not None and matches(value, spec))


def _compiler(hazard: Hazard, compiler: str | None) -> bool:
    if compiler is None:
        return False
    kind, _, version = compiler.partition("-")
    return kind == hazard.compiler and _version(hazard.compiler_version, version or None)
