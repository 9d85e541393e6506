"""What is under test: the interpreter, how to start it, and the words its surroundings need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.host.sandbox import Sandbox

CHECKS = Path(__file__).with_name("checks")


@dataclass(frozen=True, kw_only=True)
class Target:
    """One interpreter that can run checks. ``command`` starts it, perhaps through an emulator."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    package: str = "torch"
    subject: str = ""
    # Timeouts are multiplied by this: emulation is some twenty times slower than the machine.
    patience: float = 1.0
    cpu: str | None = None
    cpu_features: Mapping[str, Sequence[str]] | None = None
    # Why the package cannot be imported here, where only what needs no import is to be tried.
    no_import: str | None = None
    no_import_remedy: str | None = None
    # Whether a kernel on a GPU is owed. None: where the package was built for one; False: only the CPU is claimed.
    gpu: bool | None = None
    # All checks in one process, started again after a crash, as where there is no fork.
    inline: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    # A stranger's wheel is tried apart from the rest of the machine.
    sandbox: Sandbox | None = None

    def agent(self) -> list[str]:
        return [*self.command, str(CHECKS / "agent.py")]
