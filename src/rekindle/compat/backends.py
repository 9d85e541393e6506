"""The backends: what the wheels of each have for a card, and what a build for it sets and must find."""

from __future__ import annotations

from rekindle.compat.answer import Coverage, Name
from rekindle.compat.images import covers, flavour_code
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm, Xe
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu
from rekindle.model.version import compare


class CpuBackend:
    """No accelerator: every wheel runs, and a build switches the others off."""

    name: Name = "cpu"
    vendor: str | None = None

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """Never: a CPU wheel has no GPU code."""
        return Coverage("none", "a CPU wheel uses no GPU", code="gpu-no-code")

    def platforms(self, flavour: Flavour) -> tuple[Platform, ...]:
        """As the flavour lists them."""
        return flavour.platforms

    def arch_list(self, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
        """Nothing to compile for."""
        return ()

    def build_environment(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """Both accelerators off."""
        return {"USE_CUDA": "0", "USE_ROCM": "0"}

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """CUDA must not have slipped in."""
        return {"USE_CUDA": "OFF"}


class CardBackend(CpuBackend):
    """What the backends of cards have in common."""

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """By the code the facts list for this wheel, its math libraries, and the override that people use."""
        return covers(flavour_code(flavour, platform), gpu.arch, platform.split("_")[0], facts)


class CudaBackend(CardBackend):
    """NVIDIA cards."""

    name: Name = "cuda"
    vendor: str | None = "nvidia"

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
        return env | ({"TORCH_CUDA_ARCH_LIST": ";".join(arch_list)} if arch_list else {})

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """CUDA and cuDNN were really found."""
        return {"USE_CUDA": "ON", "USE_CUDNN": "ON"}


class RocmBackend(CardBackend):
    """AMD cards."""

    name: Name = "rocm"
    vendor: str | None = "amd"

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
        return env | ({"PYTORCH_ROCM_ARCH": ";".join(arch_list)} if arch_list else {})

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """ROCm was really found."""
        return {"USE_ROCM": "ON"}


class XpuBackend(CardBackend):
    """Intel's GPUs; their wheels hold SPIR-V too, which the driver compiles for a generation without own code."""

    name: Name = "xpu"
    vendor: str | None = "intel"

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """By the generations that the facts list for this wheel, and by the first torch that drives the card."""
        source = flavour.source[0]
        row = facts.xe_generation(gpu.arch)
        if row is None:
            return Coverage("unknown", "the card's generation is not known", source, code="gpu-arch-not-told")
        first = row.windows if platform == "windows" else row.torch
        if first is None or platform not in flavour.xpu:
            return Coverage("none", f"has no code for {row.title}", row.source[0], code="gpu-no-code")
        if row.arch in flavour.xpu[platform]:
            return Coverage("native", f"holds {row.arch}", source, code="gpu-native", target=str(row.arch))
        if compare(flavour.torch, first) < 0:
            text = f"is older than {row.title}: torch {first} is the first for it"
            return Coverage("none", text, row.source[0], code="gpu-no-code")
        text = f"holds SPIR-V, which is compiled for {row.arch} at first use"
        return Coverage("native", text, row.source[0], code="gpu-spirv", target="spirv")

    def platforms(self, flavour: Flavour) -> tuple[Platform, ...]:
        """Where it has code for Intel's GPUs."""
        return tuple(flavour.xpu)

    def arch_list(self, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
        """As ``TORCH_XPU_ARCH_LIST`` spells them."""
        return tuple(sorted({gpu.arch.name for gpu in gpus if isinstance(gpu.arch, Xe)}))

    def build_environment(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """XPU on, the others off."""
        env = {"USE_XPU": "1", "USE_CUDA": "0", "USE_ROCM": "0"}
        return env | ({"TORCH_XPU_ARCH_LIST": ",".join(arch_list)} if arch_list else {})

    def build_asserts(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """XPU was really found."""
        return {"USE_XPU": "ON"}
