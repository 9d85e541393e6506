"""What using a wheel needs: a C library it runs on, a driver that works, a torch that fits, DLLs that nobody holds."""

from __future__ import annotations

from rekindle.compat.libc import Libc, libc_of, libc_runs
from rekindle.compat.published import platform_of
from rekindle.facts import load_facts
from rekindle.model.machine import Check, CheckStatus, Purpose
from rekindle.readiness.case import Checks, ExaminedMachine
from rekindle.readiness.cuda import driver_misfit

_TO_USE: tuple[Purpose, ...] = ("use",)


def _use_check(
    name: str,
    status: CheckStatus,
    found: str | None = None,
    *,
    want: str | None = None,
    fix: str | None = None,
    why: str | None = None,
) -> Check:
    return Check(id=name, status=status, needed_for=_TO_USE, found=found, want=want, fix=fix, why=why)


def glibc_of_machine(case: ExaminedMachine) -> Checks:
    """Published wheels name the oldest glibc they run on."""
    os, facts = case.machine.os, load_facts()
    have = libc_of(os, facts)
    if have is None:
        return
    platform = platform_of(os)
    rows = [(version, facts.release(version)) for version in facts.releases]
    wants = [(version, row.glibc[platform]) for version, row in rows if row and platform and platform in row.glibc]
    answers = [(version, libc_runs(Libc("glibc", least), have)) for version, least in wants]
    if not answers or answers[0][1].kind == "unknown":
        yield _use_check("glibc", "skip", want="glibc")
        return
    if have.kind == "musl":
        why = f"a torch wheel {answers[0][1].text}"
        yield _use_check("glibc", "fail", "musl", want="glibc", fix=case.fix("musl"), why=why)
        return
    want = f"{wants[0][1]} or newer"
    newest = next((version for version, answer in answers if answer.kind == "yes"), None)
    if newest == wants[0][0]:
        yield _use_check("glibc", "ok", have.version, want=want)
        return
    told = f"for glibc {have.version} the newest published torch is {newest}"
    why = told if newest else "no published torch runs on it"
    yield _use_check("glibc", "warn" if newest else "fail", have.version, want=want, fix=case.fix("glibc"), why=why)


def nvidia_driver_of_machine(case: ExaminedMachine) -> Checks:
    """A driver that answers and drives every card."""
    cards = case.graphics.nvidia
    if not cards.gpus:
        return
    if cards.trouble is None:
        # A card that the driver itself listed is driven; one only seen on the bus may be too old or too new for it.
        silent = any(gpu.how in ("pci", "given") for gpu in cards.gpus)
        if silent and (wrong := driver_misfit(case.machine, None)):
            want, fix = "a driver that drives every card", case.fix("nvidia-driver")
            yield _use_check("nvidia-driver", "warn", cards.driver, want=want, fix=fix, why=wrong)
        else:
            yield _use_check("nvidia-driver", "ok", cards.driver or cards.l4t)
        return
    os = case.machine.os
    topic = "nvidia-restart" if "not restarted" in cards.trouble else "nvidia-wsl" if os.wsl else "nvidia-driver"
    if topic == "nvidia-driver" and os.container:
        topic = "nvidia-container"
    want = "a working NVIDIA driver"
    yield _use_check("nvidia-driver", "fail", cards.driver, want=want, fix=case.fix(topic), why=cards.trouble)


def amd_driver_of_machine(case: ExaminedMachine) -> Checks:
    """amdgpu with its compute side, open to this user."""
    cards = case.graphics.amd
    if not cards.gpus:
        return
    if cards.trouble is None:
        yield _use_check("amd-driver", "ok", cards.driver)
        return
    container = "amd-container" if "no /dev/kfd" in cards.trouble else "amd-driver"
    fix = case.fix("amd-groups" if "may not use" in cards.trouble else container)
    want = "amdgpu with compute (kfd)"
    yield _use_check("amd-driver", "fail", cards.driver, want=want, fix=fix, why=cards.trouble)


def torches_of_machine(case: ExaminedMachine) -> Checks:
    """Each torch that is installed: usable here, and if not, why."""
    for torch in case.machine.torches:
        # Another torch can be installed, so a bad one does not make the machine unready.
        if torch.works is False or torch.gpu_works is False:
            want, fix = "a torch that works here", case.fix("torch")
            yield _use_check("torch", "warn", torch.version, want=want, fix=fix, why=torch.why)
        else:
            yield _use_check("torch", "skip" if torch.works is None else "ok", torch.version)


def file_locks_of_machine(case: ExaminedMachine) -> Checks:
    """Windows does not replace a DLL that is loaded; pip then leaves half a torch behind."""
    if case.torch_users:
        yield _use_check(
            "file-locks",
            "warn",
            ", ".join(case.torch_users),
            want="no program that has torch loaded while another is installed",
            fix=case.fix("file-locks"),
            why="these programs hold torch's DLLs",
        )
