"""Every GPU the page offers: product names with their architecture, from the facts."""

from __future__ import annotations

from typing import Any

from rekindle.facts import Facts
from rekindle.index.grid import OLD_CPUS, nearest_cpu
from rekindle.model.arch import Gfx, parse_gpu_arch


def architectures(facts: Facts) -> tuple[str, ...]:
    """NVIDIA by number, then AMD; "none" stands for a machine without a GPU."""
    names = {chip.arch for chips in (facts.nvidia.chip, facts.amd.chip) for chip in chips.values()}
    names |= {str(row.arch) for row in facts.nvidia.jetson}
    archs = [parse_gpu_arch(name) for name in names]
    nvidia = sorted(arch for arch in archs if not isinstance(arch, Gfx))  # type: ignore[type-var]
    amd = sorted(arch for arch in archs if isinstance(arch, Gfx))
    return ("none", *map(str, nvidia), *map(str, amd))


def products(facts: Facts, archs: tuple[str, ...]) -> list[list[Any]]:
    """[name, index of the architecture, chip and family], one row for each architecture a name was sold with."""
    seen: dict[tuple[str, str], str] = {}
    for chips in (facts.nvidia.chip, facts.amd.chip):
        for chip_name, chip in chips.items():
            for product in chip.products:
                seen.setdefault((product, chip.arch), f"{chip_name}, {chip.family}")
    place = {arch: number for number, arch in enumerate(archs)}
    return [[name, place[arch], detail] for (name, arch), detail in sorted(seen.items()) if arch in place]


def processors(facts: Facts) -> list[list[str]]:
    """[name, products, the choice it stands for] for every microarchitecture of x86-64."""
    table = facts.cpu.microarchitecture
    known = {name: table[name].features for name in OLD_CPUS}
    return [
        [name, row.products or "", nearest_cpu(row.features, known) if name not in OLD_CPUS else name]
        for name, row in table.items()
        if row.family == "x86_64"
    ]
