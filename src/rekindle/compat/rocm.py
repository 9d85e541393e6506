"""AMD cards: published ROCm wheels, and what a build for them sets."""

from __future__ import annotations

from rekindle.compat.answer import Coverage, Name
from rekindle.compat.images import covers, flavour_code
from rekindle.facts import Facts
from rekindle.model.arch import Gfx
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu


class Rocm:
    """The backend of AMD cards."""

    name: Name = "rocm"
    vendor: str | None = "amd"

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """By the targets the facts list for this wheel, its math libraries, and the override that people use."""
        return covers(flavour_code(flavour, platform), gpu.arch, platform.split("_")[0], facts)

    def platforms(self, flavour: Flavour) -> tuple[Platform, ...]:
        """Where it has AMD code."""
        return tuple(flavour.gfx)

    def arch_list(self, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
        """As ``PYTORCH_ROCM_ARCH`` spells them."""
        found = {arch for gpu in gpus for arch in (gpu.arch, *gpu.possible) if isinstance(arch, Gfx)}
        return tuple(str(arch) for arch in sorted(found))

    def build_environment(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """ROCm on, CUDA off, for these targets."""
        env = {"USE_ROCM": "1", "USE_CUDA": "0"}
        if arch_list:
            env["PYTORCH_ROCM_ARCH"] = ";".join(arch_list)
        return env

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """ROCm was really found."""
        return {"USE_ROCM": "ON"}
