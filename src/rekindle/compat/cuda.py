"""NVIDIA cards: published CUDA wheels, and what a build for them sets."""

from __future__ import annotations

from rekindle.compat.answer import Coverage, Name
from rekindle.compat.images import covers, flavour_code
from rekindle.facts import Facts
from rekindle.model.arch import Sm
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu


class Cuda:
    """The backend of NVIDIA cards."""

    name: Name = "cuda"
    vendor: str | None = "nvidia"

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """By the machine code and PTX the facts list for this wheel."""
        return covers(flavour_code(flavour, platform), gpu.arch, platform.split("_")[0], facts)

    def platforms(self, flavour: Flavour) -> tuple[Platform, ...]:
        """Where it has NVIDIA code."""
        return tuple(flavour.sm)

    def arch_list(self, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
        """As ``TORCH_CUDA_ARCH_LIST`` spells them."""
        found = {arch for gpu in gpus for arch in (gpu.arch, *gpu.possible) if isinstance(arch, Sm)}
        return tuple(arch.dotted for arch in sorted(found))

    def build_environment(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """CUDA on, ROCm off, for these architectures."""
        env = {"USE_CUDA": "1", "USE_ROCM": "0"}
        if arch_list:
            env["TORCH_CUDA_ARCH_LIST"] = ";".join(arch_list)
        return env

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """CUDA and cuDNN were really found."""
        return {"USE_CUDA": "ON", "USE_CUDNN": "ON"}
