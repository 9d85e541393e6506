"""What installers that choose wheels by GPU should believe about this machine: ``variant env``, and variantlib's
provider ``rekindle.api.variant_plugin:RekindlePlugin``. Its features: ``sm`` and ``gfx`` (every architecture whose code
runs on a card here), ``x86_64_level`` and one for each instruction set that builds ask about."""

import functools
from typing import NamedTuple

from rekindle.api.plan_torch import this_machine
from rekindle.compat.driver import driver_side, newest_cuda
from rekindle.compat.processor import CHOOSING, missing
from rekindle.compat.toolkit import sass_runs
from rekindle.facts import load_facts
from rekindle.facts.gpus import find_gpu
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.index.variants import first_visible_arch
from rekindle.model.arch import Gfx, Sm
from rekindle.model.machine import Machine
from rekindle.model.version import at_least, is_version
from rekindle.model.words import UV_WITH_VARIANTS, VariantEnvironment

SM_VARIABLE = "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"
DRIVER_VARIABLE = "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION"


class Config(NamedTuple):
    """One feature with its values, the best first. ``multi_value``: a wheel may name several of them."""

    name: str
    values: list[str]
    multi_value: bool = False


class RekindlePlugin:
    """Satisfies variantlib's plugin protocol by having its names."""

    namespace = "rekindle"
    is_build_plugin = False

    @classmethod
    def get_all_configs(cls) -> list[Config]:
        """Every value that a wheel may name."""
        facts = load_facts()
        names = sorted({gfx.name for row in facts.wheels.flavour for listed in row.gfx.values() for gfx in listed})
        return [
            Config("sm", list(_numbers()), True),
            Config("gfx", names, True),
            Config("x86_64_level", list(reversed(_levels()))),
            *(Config(isa.replace(".", "_"), ["on"]) for isa in CHOOSING),
        ]

    @classmethod
    def get_supported_configs(cls) -> list[Config]:
        """What runs here; a feature with no value here is left out."""
        return supported_by(_machine())


_machine = functools.cache(this_machine)


def _numbers() -> dict[str, Sm]:
    """Every architecture of NVIDIA's that a toolkit compiles for, the newest first, by what a wheel calls it."""
    facts = load_facts()
    codes = {sm for kit in facts.toolkits for sm in facts.cuda.toolkit[kit].sass if not sm.suffix}
    return {f"{sm.major}{sm.minor}": sm for sm in sorted(codes, reverse=True)}


def supported_by(machine: Machine) -> list[Config]:
    """The features of a machine: code for any of its cards counts."""
    cards = [gpu.arch for gpu in machine.gpus if isinstance(gpu.arch, Sm)]
    facts = load_facts()
    codes = _numbers().items()
    running = [number for number, code in codes if any(sass_runs(code, card, None, facts) is True for card in cards)]
    gfx = sorted({gpu.arch.name for gpu in machine.gpus if isinstance(gpu.arch, Gfx)})
    configs = [Config("sm", running, True), Config("gfx", gfx, True)]
    if machine.os.arch in (None, "x86_64", "amd64") and machine.cpu.features:
        lacking = missing(CHOOSING, machine.cpu.features)
        levels: list[str] = []
        for level, needs in _levels().items():
            if set(needs) & set(lacking):
                break
            levels.insert(0, level)
        configs.append(Config("x86_64_level", levels))
        configs += [Config(isa.replace(".", "_"), ["on"]) for isa in CHOOSING if isa not in lacking]
    return [config for config in configs if config.values]


def _levels() -> dict[str, tuple[str, ...]]:
    """The x86-64 levels, the plainest first, and which of the instruction sets that builds ask about each has."""
    rows = load_facts().cpu.microarchitecture
    names = [name for name, row in rows.items() if row.vendor == "generic" and row.family == "x86_64"]
    return {
        f"v{name.partition('_v')[2] or 1}": tuple(isa for isa in CHOOSING if not missing([isa], rows[name].features))
        for name in sorted(names)
    }


def variant_environment(machine: Machine | None = None, *, gpu: str | None = None) -> VariantEnvironment:
    """The two override variables, from our own doctor. Installers look at the newest card only; here the oldest decides
    (its code is what a mixed box needs), unless ``gpu`` names another.

    >>> from rekindle.api import machine_from_flags
    >>> machine = machine_from_flags(gpu=["GTX 1080", "RTX 4090"], os="linux", driver="580.95")
    >>> variant_environment(machine).variables["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"]
    '6.1'
    """
    target = machine or this_machine()
    facts = load_facts()
    cards = [card.arch for card in target.gpus if isinstance(card.arch, Sm)]
    if gpu is not None:
        cards = [arch for arch in find_gpu(gpu, facts).archs if isinstance(arch, Sm)]
    if not cards:
        return VariantEnvironment(variables={}, notes=("no NVIDIA card was found: installers take the CPU wheel",))
    chosen = min(cards)
    variables = {SM_VARIABLE: chosen.dotted}
    notes = []
    if others := sorted({str(card) for card in cards if card != chosen}):
        notes.append(f"{chosen} decides; {', '.join(others)} must run what is installed for it (rekindle plan tells)")
    if chosen < (first := first_visible_arch()):
        found = f"{chosen} wheels are found by the driver alone"
        notes.append(f"uv gives no compute capability below {first.dotted}: {found}")
    notes += _old_uv()
    driver = target.drivers.nvidia
    cuda = newest_cuda(driver, driver_side(target.os), facts) if driver else None
    if cuda:
        variables[DRIVER_VARIABLE] = cuda
    else:
        notes.append("no NVIDIA driver was found, so the driver's CUDA version is not set")
    return VariantEnvironment(variables=variables, notes=tuple(notes))


def _old_uv(host: Host | None = None) -> list[str]:
    """The uv of this machine, where it is too old to choose."""
    words = (host or LiveHost()).run(["uv", "--version"]).out.split()
    if len(words) < 2 or not is_version(words[1]) or at_least(words[1], UV_WITH_VARIANTS):
        return []
    return [f"uv {words[1]} takes the CPU wheel whatever is set; {UV_WITH_VARIANTS} and newer choose (uv self update)"]
