"""Which known hazards a candidate meets. A condition nobody can check (an unknown glibc) does not match."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from rekindle.model.arch import parse_sm
from rekindle.model.facts import Hazard
from rekindle.model.version import matches, same_prefix
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question


def met(candidate: Candidate, question: Question) -> Iterator[Hazard]:
    kind = "wheel" if candidate.answer == "install" else "build"
    for hazard in _possible(question):
        if hazard.concerns in (kind, "both") and applies(hazard, candidate, question):
            yield hazard


def cured(hazard: Hazard) -> bool:
    """A patch of ours takes it away: no reason to refuse a compiler, but the sources change."""
    return hazard.effect == "breaks" and hazard.patch is not None


@functools.lru_cache(maxsize=64)
def _possible(question: Question) -> tuple[Hazard, ...]:
    """Those whose conditions on the machine hold; the rest is up to the candidate."""
    return tuple(hazard for hazard in question.facts.hazards.hazard if _machine_fits(hazard, question))


def _machine_fits(hazard: Hazard, question: Question) -> bool:
    if hazard.os and question.machine.os.system not in hazard.os:
        return False
    if hazard.arch and question.arch not in hazard.arch:
        return False
    if not _version(hazard.glibc, question.glibc):
        return False
    if hazard.cpu_lacks and not question.cpu_lacks(hazard.cpu_lacks):
        return False
    if hazard.sm is not None and parse_sm(hazard.sm) not in question.sms:
        return False
    return hazard.tegra is None or hazard.tegra == question.tegra


def applies(hazard: Hazard, candidate: Candidate, question: Question) -> bool:
    """The conditions on the candidate; those on the machine were looked at before."""
    if hazard.torch is not None and not matches(candidate.torch, hazard.torch):
        return False
    if hazard.backend and candidate.backend not in hazard.backend:
        return False
    if hazard.flavour and (candidate.flavour is None or candidate.flavour.name not in hazard.flavour):
        return False
    if not _version(hazard.cuda, candidate.cuda) or not _version(hazard.rocm, candidate.rocm):
        return False
    if not _version(hazard.python, candidate.python):
        return False
    if hazard.spares and _toolkit_lies_in(hazard.spares, candidate.cuda, question):
        return False
    return hazard.compiler is None or _compiler(hazard, candidate.compiler)


def _toolkit_lies_in(folders: tuple[str, ...], cuda: str | None, question: Question) -> bool:
    """Is the machine's toolkit of this version in one of the folders?"""
    return cuda is not None and any(
        kit.kind == "cuda" and kit.path in folders and kit.version is not None and same_prefix(kit.version, cuda)
        for kit in question.machine.toolkits
    )


def _version(spec: str | None, value: str | None) -> bool:
    return spec is None or (value is not None and matches(value, spec))


def _compiler(hazard: Hazard, compiler: str | None) -> bool:
    if compiler is None:
        return False
    kind, _, version = compiler.partition("-")
    return kind == hazard.compiler and _version(hazard.compiler_version, version or None)
