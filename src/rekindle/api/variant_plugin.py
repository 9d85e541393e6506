"""A provider for variantlib: what this machine can run, on axes that NVIDIA's own provider does not have.

Features: ``sm`` and ``gfx`` (every architecture whose code runs on a card here), ``x86_64_level`` and one feature for
each instruction set that builds ask about. Its plugin-api is ``rekindle.api.variant_plugin:RekindlePlugin``.
"""

import functools
from typing import NamedTuple

from rekindle.compat.processor import CHOOSING, missing
from rekindle.compat.toolkit import sass_runs
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm
from rekindle.model.machine import Machine


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
        numbers = sorted({sm for kit in facts.toolkits for sm in facts.cuda.toolkit[kit].sass}, reverse=True)
        names = sorted(
            {gfx.name for flavours in facts.wheels.flavour for listed in flavours.gfx.values() for gfx in listed}
        )
        return [
            Config("sm", [f"{sm.major}{sm.minor}" for sm in numbers if not sm.suffix], True),
            Config("gfx", names, True),
            Config("x86_64_level", list(reversed(_levels()))),
            *(Config(_feature_name(isa), ["on"]) for isa in CHOOSING),
        ]

    @classmethod
    def get_supported_configs(cls) -> list[Config]:
        """What runs here; a feature with no value here is left out."""
        return supported_by(_machine())


@functools.cache
def _machine() -> Machine:
    from rekindle.api.plan import this_machine

    return this_machine()


def supported_by(machine: Machine) -> list[Config]:
    """The features of a machine: code for any of its cards counts."""
    every = next(config for config in RekindlePlugin.get_all_configs() if config.name == "sm").values
    cards = [gpu.arch for gpu in machine.gpus if isinstance(gpu.arch, Sm)]
    facts = load_facts()
    codes = {number: Sm(int(number[:-1]), int(number[-1])) for number in every}
    running = [num for num, code in codes.items() if any(sass_runs(code, card, None, facts) is True for card in cards)]
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
        configs += [Config(_feature_name(isa), ["on"]) for isa in CHOOSING if isa not in lacking]
    return [config for config in configs if config.values]


def _levels() -> dict[str, tuple[str, ...]]:
    """The x86-64 levels, the plainest first, and which of the instruction sets that builds ask about each has."""
    rows = load_facts().cpu.microarchitecture
    names = [name for name, row in rows.items() if row.vendor == "generic" and row.family == "x86_64"]
    return {
        f"v{name.partition('_v')[2] or 1}": tuple(isa for isa in CHOOSING if not missing([isa], rows[name].features))
        for name in sorted(names)
    }


def _feature_name(isa: str) -> str:
    return isa.replace(".", "_")
