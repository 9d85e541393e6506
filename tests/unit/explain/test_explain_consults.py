"""Rules ask the machine, the plan, the facts and the installed torch, and the answer becomes the user's own."""

from __future__ import annotations

import pytest

from rekindle import api
from rekindle.model.arch import Sm
from rekindle.model.diagnosis import Match
from rekindle.model.machine import Cpu, Gpu, Machine, Os, Toolkit
from rekindle.model.plan import Plan
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport

NO_KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"


def machine(**parts: object) -> Machine:
    return Machine(os=Os(system="linux", arch="x86_64", glibc="2.31"), **parts)  # type: ignore[arg-type]


def card(arch: Sm) -> Machine:
    return machine(gpus=(Gpu(vendor="nvidia", name="card", arch=arch),))


def wheel(*sass: str, static: tuple[str, ...] = (), ptx: tuple[str, ...] = ()) -> WheelReport:
    gpu = WheelGpu(torch_kernels=Kernels(sass=sass, ptx=ptx), static_libraries=Kernels(sass=static))
    return WheelReport(name="torch", version="2.6.0+cu124", bytes=1, gpu=gpu)


def first(text: str, **known: object) -> Match:
    return api.explain(text, **known).matches[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arch", "report", "cause"),
    [
        (Sm(12, 0), wheel("sm_80", "sm_90"), "sm120-not-compatible"),
        (Sm(9, 0), wheel("sm_70", "sm_80"), "sm-newer-than-wheel"),
        (Sm(3, 5), wheel("sm_50", "sm_60"), "gpu-too-old"),
        (Sm(3, 5), wheel("sm_50", "sm_60", static=("sm_35", "sm_50")), "no-kernel-image"),
        (Sm(8, 6), wheel("sm_80", "sm_90"), "no-kernel-image"),
    ],
)
def test_one_message_has_several_causes_told_apart_by_the_installed_torch(
    arch: Sm, report: WheelReport, cause: str
) -> None:
    match = first(NO_KERNEL, machine=card(arch), wheel=report)
    assert match.id == cause and match.confidence == "high"


def test_a_quick_look_goes_by_what_the_package_declares() -> None:
    quick = WheelReport(name="torch", version="2.6.0", bytes=1, gpu=WheelGpu(declared=("sm_80", "sm_90")))
    assert first(NO_KERNEL, machine=card(Sm(12, 0)), wheel=quick).id == "sm120-not-compatible"
    jit = WheelReport(name="torch", version="2.6.0", bytes=1, gpu=WheelGpu(declared=("sm_80", "compute_90")))
    assert "extension" in first(NO_KERNEL, machine=card(Sm(12, 0)), wheel=jit).cause


def test_static_code_and_extensions_are_named() -> None:
    static = first(NO_KERNEL, machine=card(Sm(3, 5)), wheel=wheel("sm_50", static=("sm_35",)))
    assert "static" in static.cause
    extension = first(NO_KERNEL, machine=card(Sm(8, 6)), wheel=wheel("sm_80"))
    assert "extension" in extension.cause and "8.6" in extension.fix[0]


def test_without_machine_and_torch_the_message_stays_what_it_is() -> None:
    assert first(NO_KERNEL).id == "no-kernel-image"


def test_the_first_toolkit_comes_from_the_facts() -> None:
    match = first(
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'\nCuda compilation tools, release 12.3, V12.3"
    )
    assert "12.8" in match.cause and "CUDA 12.3" in match.cause


@pytest.mark.parametrize(
    ("toolkit", "arch", "cause"),
    [
        ("12.3", "compute_120", "unsupported-gpu-architecture-new"),
        ("13.0", "compute_70", "unsupported-gpu-architecture-old"),
        ("7.5", "compute_60", "unsupported-gpu-architecture-new"),
        ("12.0", "compute_35", "unsupported-gpu-architecture-old"),
        ("11.0", "compute_86", "unsupported-gpu-architecture-new"),
    ],
)
def test_too_old_and_too_new_are_told_apart_by_the_machines_toolkit(toolkit: str, arch: str, cause: str) -> None:
    known = machine(toolkits=(Toolkit(kind="cuda", version=toolkit),))
    assert first(f"nvcc fatal   : Unsupported gpu architecture '{arch}'", machine=known).id == cause


def test_a_processor_that_has_avx_is_not_blamed_for_lacking_it() -> None:
    crash = "Program received signal SIGILL, Illegal instruction.\n=> 0x7fff1:\tvmovddup -0x148(%rbp),%xmm1\n"
    with_avx = machine(cpu=Cpu(name="Xeon", features=("sse4_2", "avx", "avx2")))
    assert first(crash).confidence != "low"
    assert first(crash, machine=with_avx).confidence != "high"


def test_an_arm_machine_explains_a_bare_illegal_instruction() -> None:
    arm = Machine(os=Os(system="linux", arch="aarch64"))
    assert first("Illegal instruction (core dumped)", machine=arm).id == "illegal-instruction-arm"


def test_jobs_are_proposed_for_this_machines_memory() -> None:
    match = first("c++: fatal error: Killed signal terminated program cc1plus", machine=machine(memory_gib=32.0))
    assert "32 GiB" in match.cause and "MAX_JOBS=8" in match.fix[0]


def test_the_plan_names_the_command() -> None:
    plan = Plan(answer="install", commands=("pip install torch==2.3.1 --index-url X",))
    assert "pip install torch==2.3.1" in " ".join(first(NO_KERNEL, plan=plan).fix)


def test_pythons_of_a_release_come_from_the_facts() -> None:
    asked = "ERROR: Could not find a version that satisfies the requirement torch==1.8.1 (from versions: 1.13.0, 2.6.0)"
    text = f"Python 3.11.9\n{asked}"
    match = first(text)
    assert "3.9" in match.cause and "1.13.0 to 2.6.0" in match.cause


def test_no_text_ever_shows_a_placeholder_or_none() -> None:
    from samples import load_samples

    for sample in load_samples():
        for match in api.explain(sample.text).matches:
            text = " ".join((match.title, match.cause, *match.fix))
            for quoted in match.evidence.split():
                text = text.replace(quoted, "")  # what the log itself says may hold anything
            assert "{" not in text.replace("{libcudnn", ""), (sample.name, text)
            assert "None" not in text and match.cause


def test_a_card_that_is_part_of_a_board_is_offered_the_wheels_for_its_processor() -> None:
    """Orin and Thor sit beside an Arm processor, whatever the log leaves out; an x86-64 machine says otherwise."""
    log = f"NVIDIA Thor with CUDA capability sm_110\n>>> torch.cuda.get_device_capability(0)\n(11, 0)\n{NO_KERNEL}"
    board = " ".join(first(log).fix)
    assert "with code for sm_110 is" in board and "CUDA 13" in board
    odd = " ".join(first(NO_KERNEL, machine=card(Sm(11, 0)), wheel=wheel("sm_80", "sm_120")).fix)
    assert "No published torch carries sm_110" in odd, "PTX of a release from before the card is no advice"
