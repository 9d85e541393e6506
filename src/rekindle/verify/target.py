"""What is under test (the interpreter, how to start it, the words its surroundings need), and what is asked of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rekindle.compat.operators import Suspicion
from rekindle.host.sandbox import Sandbox
from rekindle.model.plan import Plan
from rekindle.model.verify import VerifyOptions

# Values of these are told; of anything else only the name, since a value may be a secret.
_TELLING = re.compile(r"^(?:ATEN|OMP|MKL|OPENBLAS|DNNL|ONEDNN|SPARK)_[A-Z0-9_]+$|^(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES$")
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
    # All checks in one process, started again after a crash, as where there is no fork.
    inline: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    # A stranger's wheel is tried apart from the rest of the machine.
    sandbox: Sandbox | None = None

    def agent(self) -> list[str]:
        return [*self.command, str(CHECKS / "agent.py")]


class Trial(VerifyOptions, frozen=True, kw_only=True):
    """What was asked for, and what is known of it: ``expect`` holds what the plan promised; ``suspects`` are operators
    that the wheel's own bytes make doubtful."""

    expect: dict[str, Any] = {}
    suspects: Sequence[Suspicion] = ()


SMOKE = Trial()


def promises(plan: Plan) -> dict[str, Any]:
    """What a plan promises of its torch, in the words the checks compare with; only what it really says."""
    promise = {
        "version": plan.torch,
        "cuda": plan.cuda,
        "rocm": plan.rocm,
        "arch_list": [] if plan.build and plan.build.taken else list(plan.arch_list),
        "settings": dict(plan.build.asserts) if plan.build else {},
    }
    return {name: value for name, value in promise.items() if value}


def told_settings(shell: Mapping[str, str], given: Mapping[str, str]) -> str:
    """Settings that change which code runs, as one word of a report: those of the shell that matter, and all given."""
    found = {name: value for name, value in shell.items() if _TELLING.match(name)} | dict(given)
    words = [f"{name}={value[:60]}" if _TELLING.match(name) else name for name, value in sorted(found.items())]
    return " ".join(words)
