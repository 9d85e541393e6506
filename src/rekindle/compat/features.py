"""What a card goes without, though torch runs on it; and the cards that nothing of torch ever ran on."""

from __future__ import annotations

from rekindle.compat.answer import Answer, answer
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm
from rekindle.model.facts import SmFeature
from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.model.version import matches


def lost_rows(sm: Sm, torch: str, facts: Facts) -> tuple[SmFeature, ...]:
    """The features of this release that begin after the card."""
    rows = (row for row in facts.cuda.sm_feature if sm < row.first)
    return tuple(row for row in rows if row.torch is None or matches(torch, row.torch))


def lost_features(sm: Sm, torch: str, facts: Facts, name: str | None = None) -> tuple[Reason, ...]:
    """Each of them as a sentence for the owner of the card."""
    return tuple(
        Reason(code=row.name, text=row.text.format(card=name or sm, first=row.first), source=row.source[0])
        for row in lost_rows(sm, torch, facts)
        if row.text
    )


def lost_in_build(sm: Sm, torch: str, facts: Facts) -> tuple[tuple[str, dict[str, str]], ...]:
    """(what a build for this card leaves out, the variables that switch it off)."""
    rows = lost_rows(sm, torch, facts)
    return tuple((row.loss.format(first=row.first), dict(row.env)) for row in rows if row.loss)


def ever_supported(gpu: Gpu, facts: Facts) -> Answer:
    """Did any torch ever run on cards of this generation?"""
    if isinstance(gpu.arch, Sm):
        for row in facts.cuda.source_end:
            if row.torch_last == "none" and row.first <= gpu.arch <= row.last:
                return answer("no", "gpu-unsupported", f"torch's kernels never supported {gpu.arch}", row.source[0])
    if isinstance(gpu.arch, Gfx):
        oldest = min(facts.rocm.span, key=lambda row: row.gfx)
        if gpu.arch < oldest.gfx:
            text = f"ROCm never supported {gpu.arch}: it begins with {oldest.gfx}"
            return answer("no", "gpu-unsupported", text, oldest.source[0])
    return Answer("yes" if gpu.arch else "unknown")
