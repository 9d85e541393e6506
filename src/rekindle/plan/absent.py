"""A build on the machine that was looked at: what torch can do without and is not there is planned as left out."""

from __future__ import annotations

import msgspec

from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Reason
from rekindle.plan.supplied import without

_SAYS_WHERE = ("USE_CUDNN", "CUDNN_ROOT", "CUDNN_LIBRARY", "CUDNN_INCLUDE_DIR")


def without_absent_cudnn(plan: Plan, here: Machine) -> Plan:
    """The same build without cuDNN where ``here`` has the planned toolkit and none: told as a loss, and how to have it.

    Where the toolkit itself is still to be had, or was only spoken of (it has no place), cuDNN comes with it.
    """
    if plan.build is None or plan.cuda is None or any(name in plan.build.env for name in _SAYS_WHERE):
        return plan
    if any(kit.kind == "cudnn" for kit in here.toolkits) or not here.cuda_folders(".".join(plan.cuda.split(".")[:2])):
        return plan
    wanted = f"cuDNN {plan.cudnn}" if plan.cudnn else "cuDNN"
    how = plan.build.toolchain.get("cudnn", "https://developer.nvidia.com/cudnn-archive").partition(": ")[2]
    recipe = msgspec.structs.replace(
        plan.build,
        env={**plan.build.env, "USE_CUDNN": "0"},
        asserts=without(plan.build.asserts, ("USE_CUDNN",)),
        toolchain=without(plan.build.toolchain, ("cudnn",)),
        losses=(
            *plan.build.losses,
            "cuDNN: there is none on this machine; convolutions and RNNs on the GPU use torch's own kernels",
        ),
    )
    warning = Reason(
        code="no-cudnn-here",
        text=f"There is no cuDNN on this machine, so the build goes without it (slower convolutions). To have it, get"
        f" {wanted}{f' ({how})' if how else ''} and give its folder: --set CUDNN_ROOT=FOLDER.",
    )
    return msgspec.structs.replace(plan, build=recipe, cudnn=None, warnings=(*plan.warnings, warning))
