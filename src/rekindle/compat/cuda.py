"""NVIDIA cards: which compiled code runs where.

Machine code for X.y runs on cards of the same X with an equal or higher minor number, except that Tegra chips
need their own code before CUDA 13.2 (``DEVICE_REQUIREMENT`` in torch/cuda/__init__.py of the 2.15.0 wheel).
PTX can be compiled by the driver for any later card, if the driver is as new as the toolkit that wrote it.
"""

from __future__ import annotations

import functools

from rekindle.compat.coverage import Coverage
from rekindle.facts import Facts
from rekindle.model.arch import Sm, parse_sm, ptx_runs_on, sass_runs_on
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu
from rekindle.model.version import at_least

NAME = "cuda"
VENDOR = "nvidia"
SOURCE = "torch/cuda/__init__.py, DEVICE_REQUIREMENT (wheel 2.15.0)"

# Chips that run only code made for themselves; the value is the CUDA version that lifted it.
_ALONE: dict[tuple[int, int], str | None] = {(5, 3): None, (6, 2): None, (7, 2): "13.2", (8, 7): "13.2"}
# Thor was sm_101 in CUDA 12.8/12.9 and is sm_110 since 13.0: the same chip.
_THOR = {(10, 1), (11, 0)}


def code_runs_on(code: Sm, device: Sm, cuda: str) -> bool:
    """Machine code ``code``, made by toolkit ``cuda``, on ``device``."""
    here, there = (code.major, code.minor), (device.major, device.minor)
    if here in _THOR or there in _THOR:
        return here in _THOR and there in _THOR
    if here != there and (here in _ALONE or there in _ALONE):
        lifted = _ALONE.get(there)
        if here in _ALONE or lifted is None or not at_least(cuda, lifted):
            return False
    return sass_runs_on(code, device)


@functools.lru_cache(maxsize=1024)
def split_list(archs: tuple[str, ...]) -> tuple[tuple[Sm, ...], tuple[Sm, ...]]:
    """``("8.6", "12.0+PTX")`` → machine code (8.6, 12.0) and PTX (12.0)."""
    sass = tuple(parse_sm(arch) for arch in archs)
    ptx = tuple(parse_sm(arch) for arch in archs if arch.endswith("+PTX"))
    return sass, ptx


@functools.lru_cache(maxsize=65536)
def _kind(archs: tuple[str, ...], device: Sm, cuda: str) -> tuple[str, Sm | None]:
    sass, ptx = split_list(archs)
    fitting = [code for code in sass if code_runs_on(code, device, cuda)]
    if fitting:
        return "native", max(fitting)
    jit = [code for code in ptx if ptx_runs_on(code, device)]
    return ("jit", max(jit)) if jit else ("none", None)


def covers(flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
    archs = flavour.sm.get(platform, ())
    if not isinstance(gpu.arch, Sm):
        return Coverage("unknown", "the card's architecture is not known")
    kind, code = _kind(archs, gpu.arch, flavour.cuda or "0")
    source = flavour.source[0]
    if kind == "native":
        assert code is not None
        way = "holds" if code == gpu.arch else f"holds {code} code, which runs on"
        return Coverage("native", f"{way} {gpu.arch}", source)
    if kind == "jit":
        assert code is not None
        return Coverage("jit", f"holds only PTX ({code.compute}), which the driver must compile for {gpu.arch}", source)
    return Coverage(
        "none", f"has code for {' '.join(archs)}, none of which runs on {gpu.arch} ({gpu.arch.dotted})", source
    )


def platforms(flavour: Flavour) -> tuple[Platform, ...]:
    return tuple(flavour.sm)


def arch_list(gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
    found = {arch for gpu in gpus for arch in (gpu.arch, *gpu.possible) if isinstance(arch, Sm)}
    return tuple(arch.dotted for arch in sorted(found))


def build_environment(arch_list: tuple[str, ...]) -> dict[str, str]:
    env = {"USE_CUDA": "1", "USE_ROCM": "0"}
    if arch_list:
        env["TORCH_CUDA_ARCH_LIST"] = ";".join(arch_list)
    return env


def build_asserts(arch_list: tuple[str, ...]) -> dict[str, str]:
    return {"USE_CUDA": "ON", "USE_CUDNN": "ON"}
