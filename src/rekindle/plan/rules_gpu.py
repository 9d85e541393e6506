"""R1xx: does it run on the cards, with this driver and these math libraries?"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from rekindle.compat import BACKENDS
from rekindle.compat.cudnn import cudnn_covers
from rekindle.compat.driver import driver_runs, driver_side
from rekindle.compat.toolkit import compiles_for
from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.facts import SourceEnd
from rekindle.model.machine import Gpu
from rekindle.model.plan import Change, Refusal
from rekindle.model.version import compare
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


def card(gpu: Gpu) -> str:
    """``Tesla K40c (sm_35)``."""
    if gpu.name and gpu.arch and gpu.name.lower() != str(gpu.arch):
        return f"{gpu.name} ({gpu.arch})"
    return str(gpu.arch or gpu.name or f"an unknown {gpu.vendor} GPU")


@rule("R101", "install")
def wheel_has_code(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The wheel holds code that every card runs."""
    assert candidate.flavour is not None
    backend = BACKENDS[candidate.backend]
    for gpu in question.gpus:
        coverage = backend.covers(candidate.flavour, question.platform, gpu, question.facts)
        if coverage.kind in ("none", "jit"):
            yield Refusal(
                rule="R101",
                code="gpu-not-in-wheel" if coverage.kind == "none" else "gpu-only-ptx",
                what=candidate.name,
                reason=f"{candidate.name} {coverage.text}"
                + (f", so {card(gpu)} is not served." if coverage.kind == "none" else ", and nobody saw that work."),
                source=coverage.source,
                certain=coverage.kind == "none",
            )


@rule("R102")
def driver_is_new_enough(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The driver runs this CUDA and still drives the cards; another one is proposed where that would do."""
    if candidate.cuda is None or question.tegra:
        return
    named = [(gpu.arch, card(gpu)) for gpu in question.gpus if isinstance(gpu.arch, Sm)]
    found = driver_runs(
        question.driver,
        candidate.cuda,
        [sm for sm, _ in named],
        driver_side(question.machine.os),
        question.facts,
        ptx=_only_ptx(candidate, question),
        names=[name for _, name in named],
    )
    if found.kind != "no":
        return
    change = None
    if question.driver and found.want:
        change = Change(what="driver", from_=question.driver, to=found.want, why=found.text)
    yield Refusal(
        rule="R102",
        code=found.code,
        what=f"driver {question.driver}" if change else f"CUDA {candidate.cuda}",
        reason=f"{found.text[0].upper()}{found.text[1:]}.",
        remedy=f"install driver {found.want}" if change else None,
        source=found.source,
        change=change,
    )


def _only_ptx(candidate: Candidate, question: Question) -> bool:
    """Does some card run this wheel only if the driver compiles it?"""
    if candidate.flavour is None:
        return False
    backend = BACKENDS[candidate.backend]
    return any(
        backend.covers(candidate.flavour, question.platform, gpu, question.facts).kind == "jit" for gpu in question.gpus
    )


@rule("R103", "install")
def cudnn_has_code(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The cuDNN that comes with the wheel still has code for the cards."""
    flavour = candidate.flavour
    if flavour is None or flavour.cudnn is None or candidate.cuda is None:
        return
    for gpu in question.gpus:
        found = cudnn_covers(flavour.cudnn, candidate.cuda, gpu.arch, question.facts)
        if found.kind == "partly":
            yield Refusal(
                rule="R103",
                code=found.code,
                what=candidate.name,
                reason=f"{candidate.name} does not serve {card(gpu)} well: {found.text}.",
                remedy=f"a wheel with an older cuDNN, for {gpu.arch} at most {found.want}",
                source=found.source,
            )


@rule("R111", "build")
def toolkit_targets_cards(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """nvcc of this toolkit can compile for every card."""
    if candidate.cuda is None:
        return
    for gpu in question.gpus:
        if not isinstance(gpu.arch, Sm):
            continue
        found = compiles_for(candidate.cuda, gpu.arch, question.facts, gpu.name or str(gpu.arch))
        if found.kind in ("no", "partly"):
            yield Refusal(
                rule="R111",
                code=found.code,
                what=f"CUDA {candidate.cuda}",
                reason=f"{found.text}.",
                remedy=f"use CUDA {found.want}" if found.want else None,
                source=found.source,
            )


@rule("R112", "build")
def sources_take_arch(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The release's own arch list knows the cards: older sources do not parse newer numbers."""
    if candidate.backend != "cuda":
        return
    era = question.facts.era(candidate.torch)
    accepted = {parse_sm(arch) for arch in era.accepts}
    for gpu in question.gpus:
        sm = gpu.arch
        if not isinstance(sm, Sm) or sm in accepted or not accepted:
            continue
        newest = max(accepted)
        # A sibling of a known generation passes through CMake; a new generation does not.
        if sm < min(accepted) or (sm.major <= newest.major and any(sm.major == known.major for known in accepted)):
            continue
        yield Refusal(
            rule="R112",
            code="source-does-not-know-arch",
            what=f"torch {candidate.torch}",
            reason=f"the sources of torch {candidate.torch} end at {newest} and do not know {sm} ({sm.dotted}).",
            source=era.source[0],
        )


@functools.lru_cache(maxsize=256)
def source_end(sm: Sm, facts: Facts) -> SourceEnd | None:
    return next((row for row in facts.cuda.source_end if row.first <= sm <= row.last), None)


@rule("R113", "build")
def sources_still_compile(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The release still compiles for old cards."""
    if candidate.backend != "cuda":
        return
    for gpu in question.gpus:
        end = source_end(gpu.arch, question.facts) if isinstance(gpu.arch, Sm) else None
        if end is None or (end.torch_last != "none" and compare(candidate.torch, end.torch_last) <= 0):
            continue
        yield Refusal(
            rule="R113",
            code="source-ended-for-arch",
            what=f"torch {candidate.torch}",
            reason=f"torch {end.torch_last} is the last that is known to compile for {card(gpu)}"
            f"{f', with CUDA {end.cuda_last} at most' if end.cuda_last else ''}.",
            source=end.source[0],
        )
