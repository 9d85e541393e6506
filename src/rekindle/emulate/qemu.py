"""qemu-user: the machines it emulates, as Debian and the loader call them, its models of CPUs (``cpus.toml`` says which
stands for a CPU as :mod:`rekindle.compat.cpu_names` names it), and the command that starts a program under it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rekindle.compat.cpu_names import find_cpu
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.model.toml import read_beside

# Measured: importing torch 2.15.0 takes 3 s natively and 136 s under qemu 7.2 on the same core.
PATIENCE = 30.0


class EmulatedMachine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of machine: a table of ``cpus.toml``, where its fields are explained."""

    machine: str
    words: str
    program: str
    debian: str
    triplet: str
    loader: str
    elf: int
    answer: str
    page: int
    probed: frozenset[str]
    models: dict[str, str]

    @property
    def is_here(self) -> bool:
        """Is this machine one of them, so that no root file system is needed?"""
        return LiveHost().machine == self.machine

    def library_folders(self, root: Path) -> tuple[Path, ...]:
        """Where a system of that kind keeps its libraries."""
        inside = (f"lib/{self.triplet}", f"usr/lib/{self.triplet}", "lib64", "usr/lib64")
        return tuple(root / folder for folder in inside)


_TABLE = read_beside(__file__, "cpus.toml", dict[str, Any])
EMULATED = {name: msgspec.convert({"machine": name, **_TABLE[name]}, EmulatedMachine) for name in ("x86_64", "aarch64")}
X86, ARM = EMULATED.values()


@dataclass(frozen=True, kw_only=True)
class EmulatedCpu:
    """``has`` and ``lacks`` are None where only the emulator knows the model, and then nothing is compared."""

    name: str
    model: str
    has: frozenset[str] | None = None
    lacks: frozenset[str] | None = None
    emulated: EmulatedMachine = X86


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
    kinds = emulated.models
    try:
        kind = find_cpu(name, facts)
    except BadInput as unknown:
        if model := next((model for model in models if model.lower() == name.strip().lower()), None):
            return EmulatedCpu(name=model, model=model, emulated=emulated)
        raise BadInput(unknown.message, remedy=f"{unknown.remedy} Emulated are {', '.join(kinds)}") from unknown
    row = facts.cpu.microarchitecture[kind]
    if row.family != emulated.machine:
        text = f"{name} is no {emulated.words} CPU, and the wheel holds {emulated.words} code"
        raise BadInput(text, remedy=f"known: {', '.join(kinds)}")
    if kind not in kinds:
        # What to try instead: the ablest that can be emulated and has nothing that this one lacks.
        abilities = {model: facts.cpu.microarchitecture[model].features for model in kinds}
        fitting = [model for model in kinds if set(abilities[model]).issubset(row.features)]
        nearest = max(fitting, key=lambda model: len(abilities[model]), default=None)
        hint = f"--cpu {nearest} is the nearest that can do no more; " if nearest else ""
        text = f"{name} is known as {kind}, of which qemu has no model"
        raise BadInput(text, remedy=f"{hint}known: {', '.join(kinds)}")
    has = emulated.probed.intersection(row.features)
    return EmulatedCpu(name=kind, model=kinds[kind], has=has, lacks=emulated.probed - has, emulated=emulated)


@dataclass(frozen=True, kw_only=True)
class Emulator:
    """A qemu-user program: where it lies, its version, the CPU models it knows and the machine it emulates."""

    path: str
    version: str
    models: tuple[str, ...]
    emulated: EmulatedMachine = X86

    def command(self, cpu: EmulatedCpu, *, root: Path | None, env: Mapping[str, str]) -> list[str]:
        """The words before the emulated program. ``env`` is set for that alone: LD_LIBRARY_PATH must not reach qemu."""
        prefix = ["-L", str(root)] if root else []
        settings = [word for name, value in env.items() for word in ("-E", f"{name}={value}")]
        return [self.path, "-cpu", cpu.model, *prefix, *settings]


def find_emulator(host: Host, emulated: EmulatedMachine = X86) -> Emulator:
    """The emulator for that machine on PATH, with its version and the models it knows."""
    if host.system != "linux":
        raise BadInput("--cpu needs Linux: qemu-user runs nowhere else", remedy="use it in WSL or a Linux machine")
    path = host.which(emulated.program) or host.which(f"{emulated.program}-static")
    if path is None:
        raise MissingTool(f"--cpu needs {emulated.program}, which is not on PATH", remedy="sudo apt install qemu-user")
    words = host.run([path, "--version"]).out.partition("\n")[0].split()
    version = words[words.index("version") + 1] if "version" in words[:-1] else "unknown"
    listed = host.run([path, "-cpu", "help"]).out
    # qemu-x86_64 prints "x86 Nehalem  Intel Core i7 …", qemu-aarch64 "  cortex-a72"
    mark, at = ("x86 ", 1) if emulated is X86 else ("  ", 0)
    models = tuple(line.split()[at] for line in listed.splitlines() if line.startswith(mark) and len(line.split()) > at)
    return Emulator(path=path, version=version, models=models, emulated=emulated)


def choose_cpu(emulator: Emulator, name: str) -> EmulatedCpu:
    """The CPU a user means, as far as this emulator has it."""
    cpu = find_emulated_cpu(name, emulator.models, emulator.emulated)
    if emulator.models and cpu.model.split(",")[0] not in emulator.models:
        text = f"qemu {emulator.version} has no model {cpu.model} for {cpu.name}"
        raise BadInput(text, remedy="a newer qemu-user may have it")
    return cpu
