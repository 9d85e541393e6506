"""What is asked of a proof, whatever is tried: a wheel, an installed package or a wheel on an emulated CPU. With it
what a plan promises, and which of the user's settings a report tells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rekindle.compat.operators import Suspicion
from rekindle.host.sandbox import Wish
from rekindle.model.plan import Plan
from rekindle.model.verify import Level

# Values of these are told; of anything else only the name, since a value may be a secret.
_TELLING = re.compile(r"^(?:ATEN|OMP|MKL|OPENBLAS|DNNL|ONEDNN|SPARK)_[A-Z0-9_]+$|^(?:CUDA|HIP|ROCR)_VISIBLE_DEVICES$")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """``expect`` holds what the plan promised; ``suspects`` are operators that the wheel's own bytes make doubtful.

    ``dependencies``, ``find_links`` and ``sandbox`` say how a wheel is installed and run; an installed package has
    that behind it. ``gpu`` is None where the machine decides.
    """

    python: str | None = None
    level: Level = "smoke"
    only: Sequence[str] = ()
    expect: Mapping[str, Any] = field(default_factory=dict)
    dependencies: bool = True
    find_links: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    gpu: bool | None = None
    sandbox: Wish = "auto"
    suspects: Sequence[Suspicion] = ()


def promises(plan: Plan) -> dict[str, Any]:
    """What a plan promises of its torch, in the words the checks compare with; only what it really says."""
    promise: dict[str, Any] = {}
    if plan.torch:
        promise["version"] = plan.torch
    if plan.cuda:
        promise["cuda"] = plan.cuda
    if plan.rocm:
        promise["rocm"] = plan.rocm
    if plan.arch_list and not (plan.build and plan.build.taken):
        promise["arch_list"] = list(plan.arch_list)
    if plan.build and plan.build.asserts:
        promise["settings"] = dict(plan.build.asserts)
    return promise


def told_settings(shell: Mapping[str, str], given: Mapping[str, str]) -> str:
    """Settings that change which code runs, as one word of a report: those of the shell that matter, and all given."""
    found = {name: value for name, value in shell.items() if _TELLING.match(name)} | dict(given)
    words = [f"{name}={value[:60]}" if _TELLING.match(name) else name for name, value in sorted(found.items())]
    return " ".join(words)
