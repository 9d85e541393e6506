"""CPU names into emulator models, and the instruction sets such a CPU must and must not have."""

from __future__ import annotations

import functools
import re
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from rekindle.errors import BadInput
from rekindle.verify.emulated_machine import ARM, X86, EmulatedMachine

# The instruction sets the emulated CPU is asked for and probed with, in archspec's words. What is not in this list
# (rdrand, xsave, …) no compiler emits by itself for arithmetic.
PROBED = (
    "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "aes", "avx", "f16c", "fma", "bmi1", "bmi2", "movbe",
    "avx2", "avx512f",
)  # fmt: skip
# The same for AArch64, in the kernel's words, which are archspec's.
PROBED_ARM = ("aes", "crc32", "atomics", "asimdrdm", "asimdhp", "asimddp", "fcma", "sve")
_ARCHSPEC = {"sse3": ("sse3", "pni")}


@dataclass(frozen=True, kw_only=True)
class EmulatedCpu:
    """``has`` and ``lacks`` are None where only the emulator knows the model, and then nothing is compared."""

    name: str
    model: str
    has: frozenset[str] | None = None
    lacks: frozenset[str] | None = None
    emulated: EmulatedMachine = X86


@functools.cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("cpus.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def known_names(emulated: EmulatedMachine = X86) -> tuple[str, ...]:
    return tuple(_table()["models" if emulated is X86 else emulated.machine])


def machine_of_cpu(name: str) -> EmulatedMachine:
    """The kind of machine a CPU's name belongs to; x86-64 where nobody knows the name."""
    return ARM if _plain(name) in _table()[ARM.machine] else X86


def _plain(name: str) -> str:
    plain = re.sub(r"\s+", " ", name.strip().lower())
    return str(_table()["aliases"].get(plain, plain)).replace("-", "_").replace(" ", "_")


def find_cpu(name: str, models: tuple[str, ...] = (), emulated: EmulatedMachine = X86) -> EmulatedCpu:
    """The CPU a user means; ``models`` are those the emulator itself knows."""
    known = _table()["models" if emulated is X86 else emulated.machine]
    plain = _plain(name)
    if plain in known:
        probed = PROBED if emulated is X86 else PROBED_ARM
        has = _features(plain, probed)
        return EmulatedCpu(name=plain, model=known[plain], has=has, lacks=frozenset(probed) - has, emulated=emulated)
    for model in models:
        if model.lower() == name.strip().lower():
            return EmulatedCpu(name=model, model=model, emulated=emulated)
    import difflib

    other = X86 if emulated is ARM else ARM
    if plain in known_names(other):
        raise BadInput(
            f"{name} is no {emulated.words} CPU, and the wheel holds {emulated.words} code",
            remedy=f"known: {', '.join(known_names(emulated))}",
        )
    near = difflib.get_close_matches(plain, known_names(emulated), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise BadInput(
        f"no {emulated.words} CPU {name!r} is known", remedy=f"{hint}known: {', '.join(known_names(emulated))}"
    )


def _features(name: str, probed: tuple[str, ...]) -> frozenset[str]:
    import archspec.cpu

    target = archspec.cpu.TARGETS[name]
    return frozenset(
        feature for feature in probed if any(word in target.features for word in _ARCHSPEC.get(feature, (feature,)))
    )
