"""No accelerator: every wheel runs, and a build switches the others off."""

from __future__ import annotations

from rekindle.compat.answer import Coverage, Name
from rekindle.facts import Facts
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu


class Cpu:
    """The backend that uses no card."""

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
