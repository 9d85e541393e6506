"""Needed where there are cards: a driver that works, and a toolkit that fits card and compiler."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.doctor.case import Case
from rekindle.doctor.fit import Misfit, cuda_misfits, cudnn_cards, cudnn_misfits, driver_misfit, rocm_misfit
from rekindle.model.machine import Check


def check_nvidia_driver(case: Case) -> Check | None:
    if not case.graphics.nvidia.gpus:
        return None
    trouble = case.graphics.nvidia.trouble
    # A card that the driver itself listed is driven; one only seen on the bus may be too old or too new for it.
    silent = [gpu for gpu in case.graphics.nvidia.gpus if gpu.how in ("pci", "given")]
    if trouble is None and silent and (wrong := driver_misfit(case.machine, None)):
        return Check(
            id="nvidia-driver",
            status="warn",
            needed_for=("use",),
            found=case.graphics.nvidia.driver,
            want="a driver that drives every card",
            fix=case.fix("nvidia-driver"),
            why=wrong,
        )
    if trouble is None:
        return Check(
            id="nvidia-driver",
            status="ok",
            needed_for=("use",),
            found=case.graphics.nvidia.driver or case.graphics.nvidia.l4t,
        )
    os = case.machine.os
    topic = "nvidia-restart" if "not restarted" in trouble else "nvidia-wsl" if os.wsl else "nvidia-driver"
    if topic == "nvidia-driver" and os.container:
        topic = "nvidia-container"
    return Check(
        id="nvidia-driver",
        status="fail",
        needed_for=("use",),
        found=case.graphics.nvidia.driver,
        want="a working NVIDIA driver",
        fix=case.fix(topic),
        why=trouble,
    )


def check_amd_driver(case: Case) -> Check | None:
    cards = case.graphics.amd
    if not cards.gpus:
        return None
    if cards.trouble is None:
        return Check(id="amd-driver", status="ok", needed_for=("use",), found=cards.driver)
    return Check(
        id="amd-driver",
        status="fail",
        needed_for=("use",),
        found=cards.driver,
        want="amdgpu with compute (kfd)",
        fix=case.fix(_amd_topic(cards.trouble)),
        why=cards.trouble,
    )


def _amd_topic(trouble: str) -> str:
    if "may not use" in trouble:
        return "amd-groups"
    return "amd-container" if "no /dev/kfd" in trouble else "amd-driver"


def check_cuda(case: Case) -> list[Check]:
    """Any one toolkit that fits is enough; those that do not are named beside it."""
    if not case.graphics.nvidia.gpus:
        return []
    toolkits = [t for t in case.machine.toolkits if t.kind == "cuda"]
    misfits = {toolkit.path: cuda_misfits(case.machine, toolkit) for toolkit in toolkits}
    good = [toolkit for toolkit in toolkits if not any(misfit.blocking for misfit in misfits[toolkit.path])]
    check = Check(
        id="cuda-toolkit",
        status="ok" if good else "fail",
        needed_for=("build",),
        found=", ".join(toolkit.version or "?" for toolkit in good or toolkits) or None,
        want=None if good else "a CUDA toolkit that fits card and compiler",
        fix=None if good else case.fix("cuda-toolkit"),
    )
    return [check, *(_named("cuda", misfits[toolkit.path]) for toolkit in toolkits if misfits[toolkit.path])]


def check_cudnn(case: Case) -> list[Check]:
    if not case.graphics.nvidia.gpus:
        return []
    found = [t for t in case.machine.toolkits if t.kind == "cudnn" and "no headers" not in (t.note or "")]
    wrong = cudnn_misfits(case.machine) + cudnn_cards(case.machine)
    bad = {misfit.toolkit for misfit in wrong if misfit.blocking}
    good = [toolkit for toolkit in found if toolkit not in bad]
    fitting = {toolkit.version for toolkit in good}
    check = Check(
        id="cudnn",
        status="ok" if good else "warn",
        needed_for=("build",),
        found=", ".join(dict.fromkeys(toolkit.version or "?" for toolkit in good)) or None,
        want=None if good else "a cuDNN for the toolkit (torch builds without it, slower)",
        fix=None if good else case.fix("cudnn"),
    )
    # One installation of cuDNN 9 serves several CUDAs: the half that is not for this one is no trouble.
    named = [m for m in wrong if not (m.blocking and m.toolkit.version in fitting)]
    return [
        check,
        *(_named("cudnn", [m for m in named if m.toolkit == t]) for t in dict.fromkeys(m.toolkit for m in named)),
    ]


def _named(kind: str, misfits: Sequence[Misfit]) -> Check:
    toolkit = misfits[0].toolkit
    return Check(
        id=f"{kind}-{toolkit.version}",
        status="warn" if any(misfit.blocking for misfit in misfits) else "skip",
        needed_for=("build",),
        found=toolkit.path,
        why="; ".join(misfit.why for misfit in misfits),
    )


def check_rocm(case: Case) -> list[Check]:
    if not case.graphics.amd.gpus:
        return []
    found = [toolkit for toolkit in case.machine.toolkits if toolkit.kind == "rocm"]
    check = Check(
        id="rocm",
        status="ok" if found else "fail",
        needed_for=("build",),
        found=", ".join(dict.fromkeys(toolkit.version or "?" for toolkit in found)) or None,
        want=None if found else "a ROCm that knows the card",
        fix=None if found else case.fix("rocm"),
    )
    # AMD's list is what AMD supports, not all that works: a warning, no failure.
    wrong = [Misfit(toolkit=t, why=why) for t in found if (why := rocm_misfit(case.machine, t))]
    return [check, *(_named("rocm", [misfit]) for misfit in wrong)]


def check_torch(case: Case) -> list[Check]:
    """Each torch that is installed: usable here, and if not, why."""
    checks = []
    for torch in case.machine.torches:
        wrong = torch.works is False or torch.gpu_works is False
        checks.append(
            Check(
                id="torch",
                # Another torch can be installed, so a bad one does not make the machine unready.
                status="warn" if wrong else "skip" if torch.works is None else "ok",
                needed_for=("use",),
                found=torch.version,
                want="a torch that works here" if wrong else None,
                fix=case.fix("torch") if wrong else None,
                why=torch.why if wrong else None,
            )
        )
    return checks
