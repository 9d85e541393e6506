"""What a plan promises about the torch it leads to, in the words the checks compare with."""

from __future__ import annotations

from typing import Any

from rekindle.model.plan import Plan


def promises(plan: Plan) -> dict[str, Any]:
    """Version, variant and build settings; only what the plan really says."""
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
