"""What using a wheel needs: a C library it runs on, a driver that works, a torch that fits, DLLs that nobody holds."""

from rekindle.compat.backends import platform_of
from rekindle.compat.libc import Libc, libc_of, libc_runs
from rekindle.facts import load_facts
from rekindle.model.machine import Check, CheckStatus
from rekindle.readiness.case import TO_USE, Checks, ExaminedMachine
from rekindle.readiness.cuda import driver_misfit


def glibc_of_machine(case: ExaminedMachine) -> Checks:
    """Published wheels name the oldest glibc they run on."""
    os, facts = case.machine.os, load_facts()
    if (have := libc_of(os, facts)) is None:
        return
    platform = platform_of(os)
    rows = [(version, facts.release(version)) for version in facts.releases]
    wants = [(version, row.glibc[platform]) for version, row in rows if row and platform and platform in row.glibc]
    answers = [(version, libc_runs(Libc("glibc", least), have)) for version, least in wants]
    if all(answer.kind == "unknown" for _, answer in answers):
        yield Check(id="glibc", status="skip", needed_for=TO_USE, want="glibc")
        return
    if have.kind == "musl":
        why = f"a torch wheel {answers[0][1].text}"
        yield case.verdict("glibc", False, "musl", want="glibc", topic="musl", why=why, needed_for=TO_USE)
        return
    want = f"{wants[0][1]} or newer"
    newest = next((version for version, answer in answers if answer.kind == "yes"), None)
    if newest == wants[0][0]:
        yield Check(id="glibc", status="ok", needed_for=TO_USE, found=have.version, want=want)
        return
    reason = f"for glibc {have.version} the newest published torch is {newest}"
    why = reason if newest else "no published torch runs on it"
    bad: CheckStatus = "warn" if newest else "fail"
    yield case.verdict("glibc", False, have.version, want=want, why=why, bad=bad, needed_for=TO_USE)


def nvidia_driver_of_machine(case: ExaminedMachine) -> Checks:
    """A driver that answers and drives every card."""
    cards, os = case.graphics.nvidia, case.machine.os
    if not cards.gpus:
        return
    # A card that the driver itself listed is driven; one only seen on the bus may be too old or too new for it.
    silent = any(gpu.how in ("pci", "given") for gpu in cards.gpus)
    if cards.trouble is None:
        wrong = driver_misfit(case.machine, None) if silent else None
        version, want = cards.driver or cards.l4t, "a driver that drives every card"
        yield case.verdict("nvidia-driver", not wrong, version, want=want, why=wrong, bad="warn", needed_for=TO_USE)
        return
    topic = "nvidia-container" if os.container else "nvidia-driver"
    topic = "nvidia-restart" if "not restarted" in cards.trouble else "nvidia-wsl" if os.wsl else topic
    want, why = "a working NVIDIA driver", cards.trouble
    yield case.verdict("nvidia-driver", False, cards.driver, want=want, topic=topic, why=why, needed_for=TO_USE)


def amd_driver_of_machine(case: ExaminedMachine) -> Checks:
    """amdgpu with its compute side, open to this user."""
    cards, trouble = case.graphics.amd, case.graphics.amd.trouble or ""
    if not cards.gpus:
        return
    topic = "amd-groups" if "may not use" in trouble else "amd-container" if "no /dev/kfd" in trouble else "amd-driver"
    want = "amdgpu with compute (kfd)"
    yield case.verdict("amd-driver", not trouble, cards.driver, want=want, topic=topic, why=trouble, needed_for=TO_USE)


def torches_of_machine(case: ExaminedMachine) -> Checks:
    """Each torch that is installed: usable here, and if not, why."""
    for torch in case.machine.torches:
        if torch.works is None and torch.gpu_works is not False:
            yield Check(id="torch", status="skip", needed_for=TO_USE, found=torch.version)
            continue
        good, want = torch.works is not False and torch.gpu_works is not False, "a torch that works here"
        # Another torch can be installed, so a bad one does not make the machine unready.
        yield case.verdict("torch", good, torch.version, want=want, why=torch.why, bad="warn", needed_for=TO_USE)


def file_locks_of_machine(case: ExaminedMachine) -> Checks:
    """Windows does not replace a DLL that is loaded; pip then leaves half a torch behind."""
    if case.torch_users:
        want = "no program that has torch loaded while another is installed"
        why, users = "these programs hold torch's DLLs", ", ".join(case.torch_users)
        yield case.verdict("file-locks", False, users, want=want, why=why, bad="warn", needed_for=TO_USE)
