"""R1xx for AMD: targets ROCm knows, what its math libraries hold, Windows, and what was tested."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.images import find_gap
from rekindle.model.plan import Refusal
from rekindle.model.version import compare
from rekindle.plan.candidate import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import rule


@rule("R114", "build")
def rocm_knows_target(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """ROCm of this version knows the cards."""
    if candidate.rocm is None:
        return
    for gfx in question.gfxs:
        row = next((row for row in question.facts.rocm.span if row.gfx.name == gfx.name), None)
        if row is None:
            continue
        if compare(candidate.rocm, row.rocm) < 0:
            reason = f"ROCm {candidate.rocm} does not know {gfx}; support begins with ROCm {row.rocm}."
            remedy = f"use ROCm {row.rocm} or newer"
        elif row.last is not None and compare(candidate.rocm, row.last) > 0:
            reason = f"ROCm {row.last} is the last that anybody is known to have made work on {gfx}."
            remedy = f"use ROCm {row.last} or older"
        else:
            continue
        yield Refusal(
            rule="R114",
            code="rocm-cannot-target-arch",
            what=f"ROCm {candidate.rocm}",
            reason=reason,
            remedy=remedy,
            source=row.source[-1],
        )


@rule("R116", "build")
def rocm_builds_on_windows(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """On Windows only AMD's own ROCm (TheRock) can build torch, and only for its targets."""
    if candidate.rocm is None or question.platform != "windows":
        return
    rows = [row for row in question.facts.wheels.flavour if row.publisher == "amd" and "windows" in row.gfx]
    known = {gfx.name for row in rows for gfx in row.gfx["windows"]}
    versions = {row.rocm for row in rows}
    for gfx in question.gfxs:
        if gfx.name not in known or candidate.rocm not in versions:
            yield Refusal(
                rule="R116",
                code="rocm-not-on-windows",
                what=candidate.name,
                reason=f"ROCm {candidate.rocm} for {gfx} does not exist on Windows; AMD's (TheRock) has"
                f" {', '.join(sorted(known))}.",
                remedy="use Linux",
                source=rows[0].source[0] if rows else None,
            )


@rule("R117", "install")
def target_was_tested(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """The maker tested the wheel on this target, not only compiled it."""
    assert candidate.flavour is not None
    for gpu in question.gpus:
        if gpu.arch in candidate.flavour.untested.get(question.platform, ()):
            yield Refusal(
                rule="R117",
                code="target-untested",
                what=candidate.name,
                reason=f"{candidate.name} is compiled for {gpu.arch} but its maker does not test it there.",
                source=candidate.flavour.source[0],
                certain=False,
            )


@rule("R118", "build")
def math_library_has_target(candidate: Candidate, question: Question) -> Iterator[Refusal]:
    """ROCm's math libraries have files for the cards; else they must be built too, which few did."""
    if candidate.rocm is None:
        return
    for gfx in question.gfxs:
        gap = find_gap(gfx, candidate.rocm, "pytorch", question.facts)
        if gap is not None:
            yield Refusal(
                rule="R118",
                code="rocm-math-gap",
                what=candidate.name,
                reason=f"{gap.library} of ROCm {candidate.rocm} has no files for {gfx}: build it for {gfx} first.",
                source=gap.source[0],
                certain=False,
            )
