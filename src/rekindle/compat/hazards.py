"""What a machine and a torch meet: known hazards, features a card goes without, cards nothing of torch ever ran on. A
condition nobody can check (an unknown glibc) does not match."""

import functools
from collections.abc import Collection
from typing import NamedTuple

from rekindle.compat.answer import CompatAnswer
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm, Xe, parse_sm
from rekindle.model.facts import Hazard, SmFeature
from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.model.version import matches


class Surroundings(NamedTuple):
    """The machine, as far as somebody looked: ``cpu_features`` and ``tegra`` are None where nobody knows."""

    system: str
    arch: str
    glibc: str | None = None
    cpu_features: Collection[str] | None = None
    sms: tuple[Sm, ...] = ()
    tegra: bool | None = None
    gfxs: tuple[Gfx, ...] = ()
    wsl: bool | None = None


class Combination(NamedTuple):
    """One torch with what it is made of. ``flavour``: of a published wheel; ``compiler``: of a build, as "gcc-12.2";
    ``toolkit_folders``: where the machine has the toolkit of this version."""

    torch: str
    backend: str
    flavour: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    compiler: str | None = None
    toolkit_folders: tuple[str, ...] = ()


def machine_meets(hazard: Hazard, machine: Surroundings) -> bool:
    """The conditions on the machine alone; the one on the CPU: it is known to lack one of the features."""
    features, needed = machine.cpu_features, hazard.cpu_lacks
    return (
        (not hazard.os or machine.system in hazard.os)
        and (not hazard.arch or machine.arch in hazard.arch)
        and _version_fits(hazard.glibc, machine.glibc)
        and (not needed or (features is not None and any(name not in features for name in needed)))
        and (hazard.sm is None or parse_sm(hazard.sm) in machine.sms)
        and (not hazard.gfx or any(gfx.name in hazard.gfx for gfx in machine.gfxs))
        and (hazard.wsl is None or hazard.wsl == bool(machine.wsl))
        and (hazard.tegra is None or hazard.tegra == machine.tegra)
    )


def torch_meets(hazard: Hazard, combo: Combination) -> bool:
    """The conditions on the torch and its toolchain alone."""
    compiler, _, number = (combo.compiler or "").partition("-")
    return (
        _version_fits(hazard.torch, combo.torch)
        and (not hazard.backend or combo.backend in hazard.backend)
        and (not hazard.flavour or combo.flavour in hazard.flavour)
        and _version_fits(hazard.cuda, combo.cuda)
        and _version_fits(hazard.rocm, combo.rocm)
        and _version_fits(hazard.python, combo.python)
        and not any(folder in hazard.spares for folder in combo.toolkit_folders)
        and hazard.compiler in (None, compiler)
        and (hazard.compiler is None or _version_fits(hazard.compiler_version, number or None))
    )


def _version_fits(spec: str | None, value: str | None) -> bool:
    return spec is None or (value is not None and matches(value, spec))


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


@functools.lru_cache(maxsize=256)
def ever_supported(gpu: Gpu, facts: Facts) -> CompatAnswer:
    """Did any torch ever run on cards of this generation?"""
    if isinstance(gpu.arch, Sm):
        for row in facts.cuda.source_end:
            if row.torch_last == "none" and row.first <= gpu.arch <= row.last:
                text = f"torch's kernels never supported {gpu.arch}"
                return CompatAnswer("no", "gpu-unsupported", text, row.source[0])
    if isinstance(gpu.arch, Gfx):
        oldest = min(facts.rocm.span, key=lambda row: row.gfx)
        if gpu.arch < oldest.gfx:
            text = f"ROCm never supported {gpu.arch}: it begins with {oldest.gfx}"
            return CompatAnswer("no", "gpu-unsupported", text, oldest.source[0])
    if isinstance(gpu.arch, Xe) and ((xe := facts.xe_generation(gpu.arch)) is None or xe.torch is None):
        text = f"no torch drives {xe.title if xe else gpu.arch}: the XPU wheels begin with Arc and Core Ultra"
        return CompatAnswer("no", "gpu-unsupported", text, xe.source[0] if xe else None)
    return CompatAnswer("yes" if gpu.arch else "unknown")
