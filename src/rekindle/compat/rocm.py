"""AMD cards: a wheel runs where its list names the target, or under an override its neighbour's code."""

from __future__ import annotations

import functools

from rekindle.compat.coverage import Coverage
from rekindle.facts import Facts
from rekindle.model.arch import Gfx
from rekindle.model.facts import Flavour, GfxOverride, MathGap, Platform
from rekindle.model.machine import Gpu
from rekindle.model.version import compare

NAME = "rocm"
VENDOR = "amd"
VARIABLE = "HSA_OVERRIDE_GFX_VERSION"


def find_override(gfx: Gfx, rocm: str, facts: Facts) -> GfxOverride | None:
    for row in facts.rocm.override:
        if row.gfx.name == gfx.name and (row.rocm_below is None or compare(rocm, row.rocm_below) < 0):
            return row
    return None


def find_gap(gfx: Gfx, rocm: str, publisher: str, facts: Facts) -> MathGap | None:
    """The math library that lacks this target in that ROCm, though the wheel lists it."""
    for gap in facts.rocm.math_gap:
        if gap.publisher != publisher or all(gfx.name != other.name for other in gap.gfx):
            continue
        if compare(rocm, gap.rocm_from) >= 0 and (gap.rocm_below is None or compare(rocm, gap.rocm_below) < 0):
            return gap
    return None


@functools.lru_cache(maxsize=1024)
def _names(listed: tuple[Gfx, ...]) -> frozenset[str]:
    return frozenset(gfx.name for gfx in listed)


def covers(flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
    if not isinstance(gpu.arch, Gfx):
        return Coverage("unknown", "the card's architecture is not known")
    names = _names(flavour.gfx.get(platform, ()))
    source = flavour.source[0]
    rocm = flavour.rocm or "0"
    if gpu.arch.name in names:
        gap = find_gap(gpu.arch, rocm, flavour.publisher, facts)
        if gap is None:
            return Coverage("native", f"lists {gpu.arch}", source)
        text = f"lists {gpu.arch}, but its {gap.library} (ROCm {rocm}) has no files for it"
        return Coverage("none", text, gap.source[0])
    # An override is a Linux thing: the variable belongs to the HSA runtime.
    row = find_override(gpu.arch, rocm, facts) if platform.startswith("linux") else None
    if row is not None and row.runs.name in names and not find_gap(row.runs, rocm, flavour.publisher, facts):
        text = f"has no {gpu.arch}, but its {row.runs} code runs there under {VARIABLE}={row.value}"
        if row.risk:
            text += f" ({row.risk})"
        return Coverage("override", text, row.source[0], ((VARIABLE, row.value),), risky=row.risk is not None)
    return Coverage("none", f"has no code for {gpu.arch}", source)


def platforms(flavour: Flavour) -> tuple[Platform, ...]:
    return tuple(flavour.gfx)


def arch_list(gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    found = {arch for gpu in gpus for arch in (gpu.arch, *gpu.possible) if isinstance(arch, Gfx)}
    return tuple(str(arch) for arch in sorted(found))


def build_environment(arch_list: tuple[str, ...]) -> dict[str, str]:
    env = {"USE_ROCM": "1", "USE_CUDA": "0"}
    if arch_list:
        env["PYTORCH_ROCM_ARCH"] = ";".join(arch_list)
    return env


def build_asserts(arch_list: tuple[str, ...]) -> dict[str, str]:
    return {"USE_ROCM": "ON"}
