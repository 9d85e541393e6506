"""Which published wheel a version names, so that what the facts know of it can be used."""

from __future__ import annotations

import re

from rekindle.facts import Facts
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Os, cpu_arch
from rekindle.model.version import same_prefix

_VERSION = re.compile(r"(\d+\.\d+\.\d+)(?:\+(cpu|xpu|(?:cu|jp)\d+|(?:rocm|amd)[\d.]+))?")


def platform_of(os: Os) -> Platform | None:
    """The platform whose wheels a system takes; None for one that has none."""
    arch = cpu_arch("x86_64" if os.arch is None else os.arch)
    table: dict[tuple[str, str | None], Platform] = {
        ("linux", "x86_64"): "linux_x86_64",
        ("linux", "aarch64"): "linux_aarch64",
        ("windows", "x86_64"): "windows",
        ("windows", "aarch64"): "windows_arm64",
        ("macos", "x86_64"): "macos_x86_64",
        ("macos", "aarch64"): "macos_arm64",
    }
    return table.get((os.system, arch))


def find_flavour(
    version: str | None, facts: Facts, *, cuda: str | None = None, rocm: str | None = None
) -> Flavour | None:
    """The published flavour of ``2.7.1+cu126``; without a local part the one with the same CUDA or ROCm.

    None for a private build, whose local part is its own.
    """
    match = _VERSION.fullmatch(version or "")
    if match is None or not (match[2] or cuda or rocm):
        return None
    for flavour in facts.flavours(match[1]):
        if match[2] is not None:
            if flavour.name == match[2]:
                return flavour
        elif (cuda and flavour.cuda and same_prefix(cuda, flavour.cuda)) or (
            rocm and flavour.rocm and same_prefix(rocm, flavour.rocm)
        ):
            return flavour
    return None
