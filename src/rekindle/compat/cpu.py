"""No accelerator: every wheel runs, and a build switches the others off."""

from __future__ import annotations

from rekindle.compat.coverage import Coverage
from rekindle.facts import Facts
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu

NAME = "cpu"
VENDOR = None


def covers(flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
    return Coverage("none", "a CPU wheel uses no GPU")


def platforms(flavour: Flavour) -> tuple[Platform, ...]:
    return flavour.platforms


def arch_list(gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    return ()


def build_environment(arch_list: tuple[str, ...]) -> dict[str, str]:
    return {"USE_CUDA": "0", "USE_ROCM": "0"}


def build_asserts(arch_list: tuple[str, ...]) -> dict[str, str]:
    return {"USE_CUDA": "OFF"}
