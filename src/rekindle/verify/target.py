"""What is under test (the interpreter, how to start it, the words its surroundings need), and what is asked of it, one
real operation of each companion beside it included."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from rekindle.compat.companions import find_package, near_packages
from rekindle.compat.processor import Suspicion
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.sandbox import Sandbox
from rekindle.model.plan import Plan
from rekindle.model.toml import read_beside
from rekindle.model.verify import ForetoldFailure, VerifyOptions

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


class Trial(VerifyOptions, frozen=True, kw_only=True):
    """What was asked for, and what is known of it: ``expect`` holds what the plan promised; ``suspects`` are operators
    that the wheel's own bytes make doubtful; ``foretold`` are checks that a grafted wheel says must fail."""

    expect: dict[str, Any] = {}
    suspects: Sequence[Suspicion] = ()
    foretold: tuple[ForetoldFailure, ...] = ()


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


def settings_words(shell: Mapping[str, str], given: Mapping[str, str]) -> str:
    """Settings that change which code runs, as one word of a report: those of the shell that matter, and all given."""
    settings = {name: value for name, value in shell.items() if _TELLING.match(name)} | dict(given)
    words = [f"{name}={value[:60]}" if _TELLING.match(name) else name for name, value in sorted(settings.items())]
    return " ".join(words)


class BesideCheck(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``beside.toml``: what Python imports, the operation, and whether it needs a GPU."""

    module: str
    call: str
    gpu: bool = False


def load_table() -> dict[str, BesideCheck]:
    return read_beside(__file__, "beside.toml", dict[str, BesideCheck])


def provable(names: Sequence[str]) -> list[str]:
    """Those of the names that the table has an operation for."""
    return [name for name in names if name in load_table()]


def companion_rows(names: Sequence[str]) -> list[dict[str, object]]:
    """The rows for these names, as the agent takes them; a name without a row is refused."""
    table, facts = load_table(), load_facts()
    rows: dict[str, dict[str, object]] = {}
    for name in names:
        package = find_package(name, facts)
        if package is None or package not in table:
            near = [other for other in near_packages(name, facts) if other in table] if package is None else []
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(table)}"
            raise BadInput(f"no check is known for {name}", remedy=hint)
        row = table[package]
        remedy = f"rekindle plan --with {package} names the version that goes with this torch"
        rows[package] = {"name": package, "remedy": remedy, **msgspec.structs.asdict(row)}
    return list(rows.values())
