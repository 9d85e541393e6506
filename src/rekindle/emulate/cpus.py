"""The machines that can be emulated, as qemu, Debian and the loader call them, and the CPUs among them.

A CPU is named as everywhere (:mod:`rekindle.compat.cpu_names`); ``cpus.toml`` says which model of qemu stands for it.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from rekindle.compat.cpu_names import find_cpu
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost

# The instruction sets the emulated CPU is asked for and probed with, in archspec's words. What is not in this list
# (rdrand, xsave, …) no compiler emits by itself for arithmetic.
PROBED = (
    "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "aes", "avx", "f16c", "fma", "bmi1", "bmi2", "movbe",
    "avx2", "avx512f",
)  # fmt: skip
# The same for AArch64, in the kernel's words, which are archspec's.
PROBED_ARM = ("aes", "crc32", "atomics", "asimdrdm", "asimdhp", "asimddp", "fcma", "sve")


@dataclass(frozen=True, kw_only=True)
class EmulatedMachine:
    """``loader`` is where programs look for the dynamic loader; ``elf`` and ``answer`` are for stand-in libraries:
    the machine's number in ELF headers, the code of a function that answers 999, and the largest page."""

    machine: str
    words: str
    program: str
    debian: str
    triplet: str
    loader: str
    elf: int
    answer: bytes
    page: int = 0x1000

    @property
    def is_here(self) -> bool:
        """Is this machine one of them, so that no root file system is needed?"""
        return LiveHost().machine == self.machine

    def library_folders(self, root: Path) -> tuple[Path, ...]:
        inside = (f"lib/{self.triplet}", f"usr/lib/{self.triplet}", "lib64", "usr/lib64")
        return tuple(root / one for one in inside)


X86 = EmulatedMachine(
    machine="x86_64",
    words="x86-64",
    program="qemu-x86_64",
    debian="amd64",
    triplet="x86_64-linux-gnu",
    loader="lib64/ld-linux-x86-64.so.2",
    elf=62,
    answer=bytes.fromhex("b8e7030000c3"),  # mov eax, 999; ret
)
ARM = EmulatedMachine(
    machine="aarch64",
    words="AArch64",
    program="qemu-aarch64",
    debian="arm64",
    triplet="aarch64-linux-gnu",
    loader="lib/ld-linux-aarch64.so.1",
    elf=183,
    answer=bytes.fromhex("e07c8052c0035fd6"),  # mov w0, #999; ret
    page=0x10000,
)
EMULATED = {emulated.machine: emulated for emulated in (X86, ARM)}


@dataclass(frozen=True, kw_only=True)
class EmulatedCpu:
    """``has`` and ``lacks`` are None where only the emulator knows the model, and then nothing is compared."""

    name: str
    model: str
    has: frozenset[str] | None = None
    lacks: frozenset[str] | None = None
    emulated: EmulatedMachine = X86


@functools.cache
def emulated_models(emulated: EmulatedMachine = X86) -> dict[str, str]:
    """The microarchitectures that can be emulated, each with the words qemu takes for it."""
    text = resources.files(__package__).joinpath("cpus.toml").read_text(encoding="utf-8")
    models: dict[str, str] = tomllib.loads(text)[emulated.machine]
    return models


def machine_of_cpu(name: str) -> EmulatedMachine:
    """The kind of machine a CPU's name belongs to; x86-64 where nobody knows the name."""
    facts = load_facts()
    try:
        return EMULATED[facts.cpu.microarchitecture[find_cpu(name, facts)].family]
    except BadInput:
        return X86


def find_emulated_cpu(name: str, models: Sequence[str] = (), emulated: EmulatedMachine = X86) -> EmulatedCpu:
    """The CPU a user means; ``models`` are those the emulator itself knows, which may be named as well."""
    facts = load_facts()
    known = emulated_models(emulated)
    try:
        kind = find_cpu(name, facts)
    except BadInput as unknown:
        for model in models:
            if model.lower() == name.strip().lower():
                return EmulatedCpu(name=model, model=model, emulated=emulated)
        raise BadInput(f"{unknown.message}; emulated are {', '.join(known)}", remedy=unknown.remedy) from unknown
    row = facts.cpu.microarchitecture[kind]
    if row.family != emulated.machine:
        raise BadInput(
            f"{name} is no {emulated.words} CPU, and the wheel holds {emulated.words} code",
            remedy=f"known: {', '.join(known)}",
        )
    if kind not in known:
        raise BadInput(
            f"{name} is known as {kind}, of which qemu has no model", remedy=_nearest_emulated(kind, emulated)
        )
    probed = frozenset(PROBED if emulated is X86 else PROBED_ARM)
    has = probed.intersection(row.features)
    return EmulatedCpu(name=kind, model=known[kind], has=has, lacks=probed - has, emulated=emulated)


def _nearest_emulated(kind: str, emulated: EmulatedMachine) -> str:
    """Which CPU to try instead: the ablest that can be emulated and has nothing that this one lacks."""
    table, known = load_facts().cpu.microarchitecture, emulated_models(emulated)
    fitting = [name for name in known if set(table[name].features) <= set(table[kind].features)]
    nearest = max(fitting, key=lambda name: len(table[name].features), default=None)
    hint = f"--cpu {nearest} is the nearest that can do no more; " if nearest else ""
    return f"{hint}known: {', '.join(known)}"
