"""Does GPU code run on a card? One function, whoever asks: for a published wheel, a library, one container.
:class:`GpuCode` is what there is (targets in any spelling, and who made them), :func:`covers` the only judge."""

import functools
import itertools
import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rekindle.compat.answer import Coverage
from rekindle.compat.toolkit import ptx_runs, sass_runs
from rekindle.facts import Facts
from rekindle.model.arch import SPIRV, Gfx, GpuArch, Sm, Xe, parse_gfx_code, parse_sm
from rekindle.model.facts import Flavour, GfxOverride, MathGap, Platform
from rekindle.model.version import compare

VARIABLE = "HSA_OVERRIDE_GFX_VERSION"
_AMD = re.compile(rf"gfx|{SPIRV}")


class GpuCode(NamedTuple):
    """``targets``: ``sm_86``, ``compute_90``, ``8.6+PTX``, ``gfx90a:xnack+``, ``gfx11-generic``, ``amdgcnspirv``.
    ``publisher`` tells whose ROCm libraries come along; None where they were read themselves or nobody knows."""

    targets: tuple[str, ...]
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    publisher: str | None = None
    source: str | None = None


def flavour_code(flavour: Flavour, platform: Platform) -> GpuCode:
    """What a published wheel holds on a platform."""
    targets = flavour.sm.get(platform, ()) or tuple(str(gfx) for gfx in flavour.gfx.get(platform, ()))
    return GpuCode(targets, flavour.cuda, flavour.rocm, flavour.cudnn, flavour.publisher, flavour.source[0])


class SplitTargets(NamedTuple):
    """Targets by kind; ``odd`` are those nobody here can read, ``lto`` is linked and compiled at run time."""

    sass: tuple[Sm, ...]
    ptx: tuple[Sm, ...]
    gfx: tuple[str, ...]
    odd: tuple[str, ...]
    lto: tuple[Sm, ...] = ()


@functools.lru_cache(maxsize=4096)
def split_targets(targets: tuple[str, ...]) -> SplitTargets:
    """``("8.6", "12.0+PTX")`` → machine code (8.6, 12.0) and PTX (12.0)."""
    sass: list[Sm] = []
    ptx: list[Sm] = []
    gfx: list[str] = []
    odd: list[str] = []
    lto: list[Sm] = []
    for name in targets:
        try:
            arch = parse_gfx_code(name) if _AMD.match(name) else parse_sm(name.replace("lto_", "sm_"))
        except ValueError:
            odd.append(name)
            continue
        if isinstance(arch, Gfx):
            gfx.append(name)
        elif name.startswith("lto_"):
            lto.append(arch)
        elif not name.startswith("compute_"):
            sass.append(arch)
        if isinstance(arch, Sm) and (name.startswith("compute_") or name.endswith("+PTX")):
            ptx.append(arch)
    return SplitTargets(tuple(sass), tuple(ptx), tuple(gfx), tuple(odd), tuple(lto))


@functools.lru_cache(maxsize=65536)
def covers(code: GpuCode, card: GpuArch | None, system: str | None, facts: Facts) -> Coverage:
    """Does a card run this code? ``system`` matters for AMD's override, which is a Linux thing."""
    if card is None:
        return Coverage("unknown", "the card's architecture is not known", code="gpu-arch-not-told")
    if not code.targets:
        return Coverage("unknown", "which cards it has code for is not known", code.source, code="gpu-targets-not-told")
    split = split_targets(code.targets)
    if isinstance(card, Sm):
        coverage = _nvidia_coverage(code, split, card, facts)
    elif isinstance(card, Xe):
        return Coverage("none", f"has no code for Intel's GPUs, and {card} is one", code.source, code="gpu-vendor")
    else:
        assert isinstance(card, Gfx)
        coverage = _amd_coverage(code, split, card, system, facts)
    if coverage.kind == "none" and split.odd:
        text = f"has code for {' '.join(split.odd)}, which is not in our tables"
        return Coverage("unknown", text, code.source, code="gpu-targets-odd")
    return coverage


def _nvidia_coverage(code: GpuCode, split: SplitTargets, card: Sm, facts: Facts) -> Coverage:
    if not split.sass and not split.ptx and not split.lto:
        return Coverage("none", f"has AMD code only, and {card} is NVIDIA", code.source, code="gpu-vendor")
    answers = [(sass_runs(sm, card, code.cuda, facts), sm) for sm in split.sass]
    if fitting := [sm for runs, sm in answers if runs]:
        best = max(fitting)
        way = "holds" if best == card else f"holds {best} code, which runs on"
        return Coverage("native", f"{way} {card}", code.source, code="gpu-native", target=str(best))
    if jit := [sm for sm in split.ptx if ptx_runs(sm, card)]:
        best = max(jit)
        text = f"holds only PTX ({best.compute}), which the driver must compile for {card}"
        return Coverage("jit", text, code.source, code="gpu-only-ptx", target=best.compute)
    if late := [sm for sm in split.lto if ptx_runs(sm, card)]:
        text = f"holds only LTO code ({max(late).lto}), which nvJitLink compiles for {card} at run time"
        return Coverage("jit", text, code.source, code="gpu-only-lto", target=max(late).lto)
    if doubtful := [sm for runs, sm in answers if runs is None]:
        text = f"holds {max(doubtful)} code; whether {card} runs it depends on the CUDA that made it, not known here"
        return Coverage("unknown", text, code.source, code="gpu-toolkit-not-told", target=str(max(doubtful)))
    listed = " ".join(sorted(code.targets, key=_arch_order))
    text = f"has code for {listed}, none of which runs on {card} ({card.dotted})"
    return Coverage("none", text, code.source, code="gpu-no-code")


def _arch_order(target: str) -> tuple[float, ...]:
    """Wheels list their targets in the order of their build scripts; people read 3.7 before 5.0."""
    try:
        sm = parse_sm(target.removesuffix("+PTX"))
    except ValueError:
        return (math.inf,)
    return sm.major, sm.minor


def amd_runs(targets: Iterable[str], card: Gfx, facts: Facts) -> bool | None:
    """Does one of these targets run on an AMD card? The rule of LLVM's target ids, with three answers (None: it depends
    on what is not known here). Code runs on its own chip only, code for a generic target on the chips it covers. A
    feature the code names (``xnack+``) must stand so on the card; one it does not name may stand either way. SPIR-V is
    compiled on the machine itself, so nobody can tell beforehand."""
    codes = [parse_gfx_code(name) for name in targets]
    chips = {name: {chip.name for chip in row.gfx} for name, row in facts.rocm.generic.items()}
    meant = [code.features for code in codes if card.name in chips.get(code.name, {code.name})]
    fitting = _features_fit(meant, card, facts)
    # SPIR-V, or a generic target newer than our table of the card's own generation.
    newer = [code for code in codes if code.generic and code.name not in chips and code.order[0] == card.order[0]]
    untold = newer or any(code.name == SPIRV for code in codes)
    return None if fitting is False and untold else fitting


def _features_fit(codes: Sequence[Iterable[str]], card: Gfx, facts: Facts) -> bool | None:
    settings = _settings(card.features)
    usual: dict[str, str] = {}
    for switch in facts.rocm.switch:
        if any(chip.name == card.name for chip in switch.gfx):
            stands = {name: sign for name, sign in _settings([switch.usual]).items() if name not in settings}
            (settings if switch.fixed else usual).update(stands)
    wanted = [_settings(features) for features in codes]
    unset = sorted({name for features in wanted for name in features} - set(settings))
    if len(unset) > 8:  # LLVM knows two; a stranger's library may name as many as it likes, and each doubles the ways
        return None
    ways = [dict(zip(unset, signs, strict=True)) for signs in itertools.product("+-", repeat=len(unset))]
    runs = [any(features.items() <= (settings | way).items() for features in wanted) for way in ways]
    if len(set(runs)) == 1:
        return runs[0]
    # As the card usually stands, and however the switches stand of which that is not known.
    as_usual = [all(usual.get(name, sign) == sign for name, sign in way.items()) for way in ways]
    return True if all(itertools.compress(runs, as_usual)) else None


def _settings(features: Iterable[str]) -> dict[str, str]:
    return {feature[:-1]: feature[-1] for feature in features}


def _amd_coverage(code: GpuCode, split: SplitTargets, card: Gfx, system: str | None, facts: Facts) -> Coverage:
    if not split.gfx:
        return Coverage("none", f"has NVIDIA code only, and {card} is AMD", code.source, code="gpu-vendor")
    if runs := amd_runs(split.gfx, card, facts):
        if (gap := find_gap(card, code.rocm, code.publisher, facts)) is not None:
            text = f"lists {card}, but its {gap.library} (ROCm {code.rocm}) has no files for it"
            return Coverage("none", text, gap.source[0], code="gpu-math-library")
        best = next((name for name in split.gfx if amd_runs((name,), card, facts)), None)
        way = "lists" if best is None or best.split(":")[0] == card.name else f"lists {best}, which covers"
        return Coverage("native", f"{way} {card}", code.source, code="gpu-native", target=best)
    # An override is a Linux thing: the variable belongs to the HSA runtime.
    row = find_override(card, code.rocm, facts) if system in ("linux", None) else None
    has_neighbour = row is not None and amd_runs(split.gfx, row.runs, facts) is True
    if row is not None and has_neighbour and find_gap(row.runs, code.rocm, code.publisher, facts) is None:
        risk = f" ({row.risk})" if row.risk else ""
        text = f"has no {card}, but its {row.runs} code runs there under {VARIABLE}={row.value}{risk}"
        env, risky = ((VARIABLE, row.value),), row.risk is not None
        return Coverage("override", text, row.source[0], env, risky, code="gpu-override", target=str(row.runs))
    if runs is None:
        return _amd_unknown(code, split, card, facts)
    return Coverage("none", f"has no code for {card}", code.source, code="gpu-no-code")


def _amd_unknown(code: GpuCode, split: SplitTargets, card: Gfx, facts: Facts) -> Coverage:
    """Why it is unknown: a switch, SPIR-V alone, or a generic target newer than our tables."""
    near = [name for name in split.gfx if amd_runs((name,), card, facts) is None]
    if switched := [name for name in near if ":" in name]:
        switches = ", ".join(sorted({feature[:-1] for name in switched for feature in name.split(":")[1:]}))
        text = f"has code for {card} only as {' '.join(switched)}; how {switches} stands on it is not known here"
        return Coverage("unknown", text, code.source, code="gpu-switch", target=switched[0])
    if SPIRV in near:
        text = f"has no code for {card}, only SPIR-V ({SPIRV}), which ROCm compiles on the machine itself"
        return Coverage("unknown", text, code.source, code="gpu-spirv", target=SPIRV)
    text = f"has code for {' '.join(near)}; whether that covers {card} is not in our tables"
    return Coverage("unknown", text, code.source, code="gpu-generic", target=near[0] if near else None)


def find_override(gfx: Gfx, rocm: str | None, facts: Facts) -> GfxOverride | None:
    """The neighbour whose code a card runs under the override variable, in this ROCm."""
    rows = (row for row in facts.rocm.override if row.gfx.name == gfx.name)
    return next((r for r in rows if r.rocm_below is None or (rocm and compare(rocm, r.rocm_below) < 0)), None)


def find_gap(gfx: Gfx, rocm: str | None, publisher: str | None, facts: Facts) -> MathGap | None:
    """The math library that lacks this target in that ROCm, though the wheel lists it."""
    if rocm is None or publisher is None:
        return None
    gaps = [gap for gap in facts.rocm.math_gap if gap.publisher == publisher and compare(rocm, gap.rocm_from) >= 0]
    open_gaps = (gap for gap in gaps if not gap.rocm_below or compare(rocm, gap.rocm_below) < 0)
    return next((gap for gap in open_gaps if any(gfx.name == other.name for other in gap.gfx)), None)
