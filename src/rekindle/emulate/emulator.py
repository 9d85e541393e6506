"""qemu-user: found, asked for its CPU models, and turned into a command that starts a program under emulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rekindle.emulate.cpus import X86, EmulatedCpu, EmulatedMachine, find_emulated_cpu
from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Host

# Measured: importing torch 2.15.0 takes 3 s natively and 136 s under qemu 7.2 on the same core.
PATIENCE = 30.0


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
    """The emulator of that machine on PATH, asked what it is and what it knows."""
    if host.system != "linux":
        raise BadInput("--cpu needs Linux: qemu-user runs nowhere else", remedy="use it in WSL or a Linux machine")
    path = host.which(emulated.program) or host.which(f"{emulated.program}-static")
    if path is None:
        raise MissingTool(f"--cpu needs {emulated.program}, which is not on PATH", remedy="sudo apt install qemu-user")
    version = host.run([path, "--version"]).out.splitlines()
    listed = host.run([path, "-cpu", "help"]).out
    # "x86 Nehalem  Intel Core i7 …" for the one, "  cortex-a72" for the other
    mark, at = ("x86 ", 1) if emulated is X86 else ("  ", 0)
    models = tuple(line.split()[at] for line in listed.splitlines() if line.startswith(mark) and len(line.split()) > at)
    return Emulator(path=path, version=_number(version[0] if version else ""), models=models, emulated=emulated)


def _number(line: str) -> str:
    words = line.split()
    return words[words.index("version") + 1] if "version" in words[:-1] else "unknown"


def choose_cpu(emulator: Emulator, name: str) -> EmulatedCpu:
    """The CPU a user means, as far as this emulator has it."""
    cpu = find_emulated_cpu(name, emulator.models, emulator.emulated)
    if emulator.models and cpu.model.split(",")[0] not in emulator.models:
        raise BadInput(
            f"qemu {emulator.version} has no model {cpu.model} for {cpu.name}",
            remedy="a newer qemu-user may have it",
        )
    return cpu
