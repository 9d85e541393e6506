"""The backends: what the wheels of each have for a card, and what a build for it sets and must find; and which
published wheel a version names, so that what the facts know of it can be used."""

import re

from rekindle.compat.answer import Coverage, Name
from rekindle.compat.images import covers, flavour_code
from rekindle.facts import Facts
from rekindle.facts.tables import read_own
from rekindle.model.arch import Gfx, GpuArch, Sm, Xe
from rekindle.model.document import Part
from rekindle.model.facts import Flavour, Platform
from rekindle.model.machine import Gpu, Os, cpu_arch
from rekindle.model.version import compare, same_prefix

_ARCHS: dict[str | None, type[GpuArch]] = {"nvidia": Sm, "amd": Gfx, "intel": Xe}
_VERSION = re.compile(r"(\d+\.\d+\.\d+)(?:\+(cpu|xpu|(?:cu|jp)\d+|(?:rocm|amd)[\d.]+))?")


class Backend(Part, frozen=True, kw_only=True):
    """One way to make torch fast, as ``backends.toml`` describes it."""

    name: Name
    vendor: str | None = None
    listed: str = "platforms"
    variable: str = ""
    separator: str = ";"
    switches: dict[str, str] = {}
    asserts: dict[str, str] = {}

    @property
    def arch(self) -> type[GpuArch] | None:
        """The kind of its cards' architectures; None for no card."""
        return _ARCHS.get(self.vendor)

    def covers(self, flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
        """Does a published flavour hold code this card runs, by the tables, or under the override that people use?"""
        if self.arch is None:
            return Coverage("none", "a CPU wheel uses no GPU", code="gpu-no-code")
        if self.arch is Xe:
            return _covers_intel(flavour, platform, gpu, facts)
        return covers(flavour_code(flavour, platform), gpu.arch, platform.split("_")[0], facts)

    def platforms(self, flavour: Flavour) -> tuple[Platform, ...]:
        """Where wheels of this flavour exist."""
        return tuple(getattr(flavour, self.listed))

    def arch_list(self, gpus: tuple[Gpu, ...]) -> tuple[str, ...]:
        """The architectures to compile for, in the spelling the build wants."""
        if (kind := self.arch) is None:
            return ()
        archs = {arch for gpu in gpus for arch in (gpu.arch, *gpu.possible) if isinstance(arch, kind)}
        return tuple(_spell_arch(arch) for arch in sorted(archs))

    def build_environment(self, arch_list: tuple[str, ...]) -> dict[str, str]:
        """The variables that switch this backend on, and the others off."""
        return {**self.switches, **({self.variable: self.separator.join(arch_list)} if arch_list else {})}


def _spell_arch(arch: GpuArch) -> str:
    return arch.dotted if isinstance(arch, Sm) else arch.name if isinstance(arch, Xe) else str(arch)


def _covers_intel(flavour: Flavour, platform: Platform, gpu: Gpu, facts: Facts) -> Coverage:
    """By the generations that the facts list for this wheel, and by the first torch that drives the card. The wheels
    hold SPIR-V too, which the driver compiles for a generation without own code."""
    source = flavour.source[0]
    if (row := facts.xe_generation(gpu.arch)) is None:
        return Coverage("unknown", "the card's generation is not known", source, code="gpu-arch-not-told")
    first = row.windows if platform == "windows" else row.torch
    if first is None or platform not in flavour.xpu:
        where = " on Windows, where it has no driver; on Linux it runs" if row.torch and first is None else ""
        return Coverage("none", f"has no code for {row.title}{where}", row.source[0], code="gpu-no-code")
    if row.arch in flavour.xpu[platform]:
        return Coverage("native", f"holds {row.arch}", source, code="gpu-native", target=str(row.arch))
    if compare(flavour.torch, first) < 0:
        text = f"is older than {row.title}: torch {first} is the first for it"
        return Coverage("none", text, row.source[0], code="gpu-no-code")
    text = f"holds SPIR-V, which is compiled for {row.arch} at first use"
    return Coverage("native", text, row.source[0], code="gpu-spirv", target="spirv")


class PlatformName(Part, frozen=True, kw_only=True):
    """A row of ``platforms.toml``."""

    system: str
    arch: str
    short: str
    exact: str
    pixi: str | None = None


BACKENDS = read_own(__file__, "backends.toml", dict[Name, Backend])
PLATFORM_NAMES = read_own(__file__, "platforms.toml", dict[Platform, PlatformName])
PLATFORMS: dict[tuple[str, str], Platform] = {(row.system, row.arch): name for name, row in PLATFORM_NAMES.items()}


def flavour_backend(flavour: Flavour) -> Name:
    """The backend a published wheel is for."""
    return "cuda" if flavour.cuda else "rocm" if flavour.rocm else "xpu" if flavour.xpu else "cpu"


def backend_of(vendor: str) -> Name | None:
    """The backend that drives a vendor's cards, if there is one."""
    return next((name for name, backend in BACKENDS.items() if vendor == backend.vendor), None)


def platform_of(os: Os) -> Platform | None:
    """The platform whose wheels a system takes; None for one that has none."""
    return PLATFORMS.get((os.system, cpu_arch("x86_64" if os.arch is None else os.arch)))


def find_flavour(
    version: str | None, facts: Facts, *, cuda: str | None = None, rocm: str | None = None
) -> Flavour | None:
    """The published flavour of ``2.7.1+cu126``; without a local part by its CUDA or ROCm. None for a private build."""
    if (match := _VERSION.fullmatch(version or "")) is None or not (match[2] or cuda or rocm):
        return None
    for flavour in facts.flavours(match[1]):
        kits = ((cuda, flavour.cuda), (rocm, flavour.rocm))
        alike = any(asked and its_own and same_prefix(asked, its_own) for asked, its_own in kits)
        if flavour.name == match[2] if match[2] else alike:
            return flavour
    return None
