"""The verdicts: every failure names a way out, on every system; fit is judged by the facts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

import rekindle.readiness
from bare_host import BareHost
from rekindle.doctor.pythons import torch_with_verdict
from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.machine import (
    Check,
    Compiler,
    Drivers,
    Gap,
    Gpu,
    InstalledTorch,
    Machine,
    Os,
    Python,
    Ready,
    Toolkit,
)
from rekindle.readiness.case import Cards, ExaminedMachine, Graphics, find_managers, fix_for, load_fixes
from rekindle.readiness.cuda import cuda_misfits, cudnn_misfits, driver_misfit
from rekindle.readiness.register import check_machine
from rekindle.readiness.rocm import rocm_misfit
from rekindle.readiness.space import build_needs

MANAGERS = ("apt", "dnf", "pacman", "zypper", "winget", "conda", "ubuntu", "root")
TOPICS = sorted(load_fixes())


@given(st.sampled_from(TOPICS), st.lists(st.sampled_from(MANAGERS), unique=True, max_size=3))
def test_every_topic_has_a_way_out_on_every_system(topic: str, managers: list[str]) -> None:
    command = fix_for(topic, tuple(managers))
    assert command and "{" not in command
    if "root" in managers:
        assert "sudo" not in command


def test_every_topic_a_rule_names_exists() -> None:
    room = Path(rekindle.readiness.__file__).parent
    text = "\n".join(path.read_text("utf-8") for path in room.glob("*.py"))
    named = set(re.findall(r'(?:\bfix(?:_for)?|\bverdict)\(\s*"([\w-]+)"', text))
    named |= set(re.findall(r'"((?:nvidia|amd)-\w+|musl)"', text))
    assert len(named) > 15 and named <= set(TOPICS)


def gpu(arch: str, name: str = "card") -> Gpu:
    return Gpu(vendor="amd" if arch.startswith("gfx") else "nvidia", name=name, arch=parse_gpu_arch(arch))


def machine(*gpus: Gpu, system: str = "linux", **parts: object) -> Machine:
    return Machine(os=Os(system=system, arch="x86_64", glibc="2.35"), gpus=gpus, **parts)  # type: ignore[arg-type]


def examined(subject: Machine, **parts: object) -> tuple[dict[str, Check], Ready]:
    nvidia = Cards(gpus=tuple(g for g in subject.gpus if g.vendor == "nvidia"), driver=subject.drivers.nvidia)
    amd = Cards(gpus=tuple(g for g in subject.gpus if g.vendor == "amd"))
    graphics = Graphics(nvidia=nvidia, amd=amd)
    case = ExaminedMachine(machine=subject, graphics=graphics, managers=(), workspace="/x", **parts)  # type: ignore[arg-type]
    checks, ready = check_machine(case)
    return {check.id: check for check in checks}, ready


def table(subject: Machine, **parts: object) -> dict[str, Check]:
    return examined(subject, **parts)[0]


def cuda(version: str) -> Toolkit:
    return Toolkit(kind="cuda", version=version, path=f"/usr/local/cuda-{version}")


@pytest.mark.parametrize(
    ("version", "compiler", "arch", "words"),
    [
        ("12.4.1", ("gcc", "11.4.0"), "sm_86", None),
        ("11.2.2", ("gcc", "11.4.0"), "sm_35", "to 10"),
        ("12.3.2", ("gcc", "12.2.0"), "sm_120", "its nvcc knows sm_50 to sm_90a"),
        ("13.0", ("gcc", "13.3.0"), "sm_61", "its nvcc knows sm_75 to"),
        ("12.6.3", ("clang", "19.1.0"), "sm_86", "clang 7 to 18"),
        # What no table knows is no misfit.
        ("99.1", ("gcc", "20.1.0"), "sm_35", None),
    ],
)
def test_a_toolkit_that_does_not_fit_is_named(
    version: str, compiler: tuple[str, str], arch: str, words: str | None
) -> None:
    kind, number = compiler
    subject = machine(gpu(arch), compilers=(Compiler(kind=kind, version=number),), toolkits=(cuda(version),))  # type: ignore[arg-type]
    misfits = cuda_misfits(subject, subject.toolkits[0])
    assert misfits == [] if words is None else words in misfits[0].why
    assert table(subject)["cuda-toolkit"].status == ("ok" if words is None else "fail")


def test_one_toolkit_that_fits_is_enough() -> None:
    subject = machine(
        gpu("sm_86"), compilers=(Compiler(kind="gcc", version="13.2.0"),), toolkits=(cuda("12.4.1"), cuda("11.8.0"))
    )
    checks = table(subject)
    assert checks["cuda-toolkit"].status == "ok" and checks["cuda-toolkit"].found == "12.4.1"
    assert checks["cuda-11.8.0"].status == "warn"


def test_a_c_compiler_alone_does_not_count() -> None:
    subject = machine(compilers=(Compiler(kind="gcc", version="12.2.0", note="C only: no C++ compiler"),))
    assert table(subject)["compiler"].status == "fail"


def test_cudnn_for_another_cuda_is_named() -> None:
    other = Toolkit(kind="cudnn", version="8.9.7", path="/usr", note="for CUDA 11.8")
    subject = machine(gpu("sm_86"), toolkits=(cuda("12.4.1"), other))
    assert "made for CUDA 11.8; the toolkit here is CUDA 12.4.1" in cudnn_misfits(subject)[0].why
    assert table(subject)["cudnn"].status == "warn"


def test_an_old_driver_is_named() -> None:
    assert "needs NVIDIA driver" in str(driver_misfit(machine(drivers=Drivers(nvidia="470.256.02")), "12.4"))
    assert driver_misfit(machine(drivers=Drivers(nvidia="580.95.05")), "12.4") is None
    assert driver_misfit(machine(drivers=Drivers(nvidia="L4T 36.4")), "12.4") is None


def torch(version: str, **parts: object) -> InstalledTorch:
    return InstalledTorch(version=version, python="/usr/bin/python3", works=True, **parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("installed", "subject", "words"),
    [
        (torch("2.6.0+cu124", cuda="12.4"), machine(gpu("sm_86"), drivers=Drivers(nvidia="550.54")), None),
        (
            torch("2.6.0+cu124", cuda="12.4"),
            machine(gpu("sm_35"), drivers=Drivers(nvidia="550.54")),
            "no code for sm_35",
        ),
        (
            torch("2.6.0+cu124", cuda="12.4"),
            machine(gpu("sm_86"), drivers=Drivers(nvidia="470.256")),
            "needs NVIDIA driver",
        ),
        (torch("2.6.0+cpu"), machine(gpu("sm_86")), "CPU build"),
        (torch("2.6.0+cu124", cuda="12.4"), machine(gpu("gfx1100")), "there is no such card"),
        (torch("2.6.0+cpu"), machine(), None),
        # A private build: only its own list counts.
        (torch("2.8.0a0+gitabc", cuda="11.4", archs=("sm_35",)), machine(gpu("sm_35")), None),
        (torch("2.8.0a0+gitabc", cuda="11.4", archs=("sm_35",)), machine(gpu("sm_86")), "no code for sm_86"),
    ],
)
def test_why_an_installed_torch_does_not_work(installed: InstalledTorch, subject: Machine, words: str | None) -> None:
    judged = torch_with_verdict(subject, installed)
    assert judged.why is None if words is None else words in (judged.why or "")
    assert judged.gpu_works is (False if words else None)


def test_a_torch_proven_on_the_card_is_not_argued_with() -> None:
    proven = torch("2.6.0+cu124", cuda="12.4", gpu_works=True)
    assert torch_with_verdict(machine(gpu("sm_35")), proven).why is None


@pytest.mark.parametrize(
    ("version", "note", "status"),
    [
        ("2.7.18", None, "warn"),
        ("3.12.3", None, "ok"),
        ("3.8.10", None, "warn"),
        ("3.12.3", "32 bit: none", "fail"),
        ("4.0.1", None, "fail"),
    ],
)
def test_pythons_are_judged_by_published_wheels(version: str, note: str | None, status: str) -> None:
    check = table(machine(pythons=(Python(version=version, note=note),)))["python"]
    assert check.status == status
    assert check.status == "ok" or check.fix


def test_without_a_python_one_is_brought_and_an_old_one_is_made_newer() -> None:
    for here, topic in (((), "python"), ((Python(version="2.6.9", path="/p"),), "python-newer")):
        check = table(machine(pythons=here))["python"]
        assert (check.status, check.fix) == ("fail", fix_for(topic, ()))


class WithApt(BareHost):
    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("apt-get", "conda") else None


@pytest.mark.parametrize(("env", "order"), [({}, ["apt", "conda"]), ({"CONDA_PREFIX": "/c"}, ["conda", "apt"])])
def test_an_activated_conda_environment_is_where_things_go(env: dict[str, str], order: list[str]) -> None:
    assert [name for name in find_managers(WithApt(env=env)) if name in order] == order


@pytest.mark.parametrize(("glibc", "status"), [("2.36", "ok"), ("2.17", "warn"), ("2.5", "fail")])
def test_glibc_is_judged_by_published_wheels(glibc: str, status: str) -> None:
    subject = Machine(os=Os(system="linux", arch="x86_64", glibc=glibc))
    check = table(subject)["glibc"]
    assert check.status == status and check.found == glibc and (check.want or "").endswith(" or newer")
    told = {"ok": "None", "warn": f"for glibc {glibc} the newest published torch is ", "fail": "no published torch"}
    assert str(check.why).startswith(told[status])


@pytest.mark.parametrize("where", [{"libc": "musl"}, {"distro": "alpine 3.20.1"}])
def test_musl_is_a_no(where: dict[str, str]) -> None:
    check = table(Machine(os=Os(system="linux", arch="x86_64", **where)))["glibc"]  # type: ignore[arg-type]
    assert (check.status, check.found) == ("fail", "musl") and check.fix


def test_an_unknown_c_library_is_not_judged() -> None:
    assert table(Machine(os=Os(system="linux", arch="x86_64")))["glibc"].status == "skip"


arch = st.sampled_from(["sm_35", "sm_61", "sm_86", "sm_120", "gfx906", "gfx1100"])


@given(
    st.lists(arch, max_size=3),
    st.lists(st.sampled_from(load_facts().toolkits), max_size=3),
    st.lists(st.tuples(st.sampled_from(["gcc", "clang"]), st.integers(5, 16)), max_size=3),
)
def test_ready_means_that_nothing_failed(
    archs: list[str], toolkits: list[str], compilers: list[tuple[str, int]]
) -> None:
    subject = machine(
        *map(gpu, archs),
        toolkits=tuple(map(cuda, toolkits)),
        compilers=tuple(Compiler(kind=kind, version=f"{number}.1.0") for kind, number in compilers),  # type: ignore[arg-type]
    )
    checks, ready = examined(subject)
    assert all(check.fix for check in checks.values() if check.status == "fail")
    failed = [check.needed_for for check in checks.values() if check.status == "fail"]
    assert (ready.use, ready.build) == tuple(not any(what in each for each in failed) for what in ("use", "build"))
    # Another compiler never takes a fitting toolkit away.
    if checks.get("cuda-toolkit") and checks["cuda-toolkit"].status == "ok" and compilers:
        from msgspec.structs import replace

        more = replace(subject, compilers=(*subject.compilers, Compiler(kind="gcc", version="99.1.0")))
        assert table(more)["cuda-toolkit"].status == "ok"


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({}, "nvidia.com/drivers"),
        ({"wsl": True}, "in Windows (not in WSL)"),
        ({"container": "docker"}, "--gpus all"),
    ],
)
def test_the_driver_is_mended_where_it_belongs(parts: dict[str, object], words: str) -> None:
    subject = Machine(os=Os(system="linux", glibc="2.35", **parts), gpus=(gpu("sm_86"),))  # type: ignore[arg-type]
    cards = Cards(gpus=subject.gpus, trouble="no NVIDIA driver is loaded")
    case = ExaminedMachine(machine=subject, graphics=Graphics(nvidia=cards), managers=(), workspace="/x")
    checks, ready = check_machine(case)
    check = next(check for check in checks if check.id == "nvidia-driver")
    assert check.status == "fail" and words in (check.fix or "")
    assert not ready.use


def test_windows_without_winget_hears_of_windows() -> None:
    from rekindle.readiness.case import fix_for

    for topic in ("compiler", "git", "python"):
        said = fix_for(topic, ("windows",)) or ""
        assert said and not any(word in said for word in ("gcc", "apt", "package manager")), topic
    assert "winget" in (fix_for("compiler", ("winget", "windows")) or "")
    assert "gcc" in (fix_for("compiler", ()) or "")


# What is said only of Linux: groups, containers, C libraries.
LINUX_ALONE = {"amd-groups", "amd-container", "nvidia-container", "nvidia-wsl", "glibc", "musl"}


def test_windows_is_told_nothing_of_another_system() -> None:
    from rekindle.readiness.case import fix_for, load_fixes

    topics = set(load_fixes())
    assert topics > LINUX_ALONE and len(topics) > 20
    for managers in (("windows",), ("winget", "windows")):
        said = {topic: fix_for(topic, managers) or "" for topic in topics - LINUX_ALONE}
        for word in ("apt", "sudo", "gcc", "kernel (6", "swap", "/linux", "bash", "$"):
            assert not [topic for topic, text in said.items() if word in text], word


@pytest.mark.parametrize("on", [True, False])
def test_long_paths_say_why_only_where_they_are_off(on: bool) -> None:
    subject = Machine(os=Os(system="windows", arch="x86_64", long_paths=on))
    check = table(subject)["long-paths"]
    assert (check.status, check.found) == (("ok", "on") if on else ("fail", "off"))
    assert bool(check.why) is bool(check.fix) is not on
    assert "long-paths" not in table(Machine(os=Os(system="linux", arch="x86_64", long_paths=on)))


def test_what_is_good_needs_no_words() -> None:
    case = ExaminedMachine(
        machine=Machine(os=Os(system="linux")), graphics=Graphics(), managers=("apt",), workspace="/x"
    )
    good = case.verdict("ccache", "yes", "4.8", want="it", why="slow")
    assert (good.status, good.found, good.want, good.fix, good.why) == ("ok", "4.8", None, None, None)
    bad = case.verdict("glibc", "", "2.17", want="2.28", topic="ccache", why="old", bad="warn", needed_for=("use",))
    assert (bad.status, bad.want, bad.why, bad.needed_for) == ("warn", "2.28", "old", ("use",))
    assert bad.fix == "sudo apt-get install -y ccache", "the topic names the fix"


@pytest.mark.parametrize(
    ("trouble", "topic"),
    [
        ("this user may not use /dev/kfd", "amd-groups"),
        ("there is no /dev/kfd in this container", "amd-container"),
        ("amdgpu is not loaded", "amd-driver"),
    ],
)
def test_the_driver_of_an_amd_card_is_fixed_where_it_belongs(trouble: str, topic: str) -> None:
    subject = machine(gpu("gfx1030"))
    cards = Graphics(amd=Cards(gpus=subject.gpus, trouble=trouble))
    case = ExaminedMachine(machine=subject, graphics=cards, managers=("apt",), workspace="/x")
    check = next(check for check in check_machine(case)[0] if check.id == "amd-driver")
    assert (check.status, check.fix) == ("fail", case.fix(topic))


def test_rocm_is_asked_for_where_there_is_an_amd_card() -> None:
    assert table(machine(gpu("gfx1030")))["rocm"].status == "fail"
    assert "rocm" not in table(machine(gpu("sm_86")))


def test_a_cudnn_of_unknown_make_is_not_judged_by_cards() -> None:
    for note, version in ((None, "9.1.0"), ("for CUDA 12.4", None)):
        odd = Toolkit(kind="cudnn", version=version, path="/usr", note=note)
        assert cudnn_misfits(machine(gpu("sm_35"), toolkits=(odd,))) == []


def test_a_cudnn_without_code_for_a_card_is_named_unless_it_is_of_pip() -> None:
    def judged(note: str, *cards: Gpu, kind: str = "cudnn") -> list[bool]:
        kit = Toolkit(kind=kind, version="9.1.0", path="/usr", note=note)
        return [misfit.blocking for misfit in cudnn_misfits(machine(*cards, toolkits=(kit,)))]

    old, new, amd = gpu("sm_35"), gpu("sm_86"), gpu("gfx1100")
    assert judged("for CUDA 12.4", new) == [] and judged("for CUDA 12.4", old) == [True]
    assert judged("for CUDA 12.4", old, new) == [False], "it serves the other card"
    assert judged("for CUDA 12.4", old, amd) == [True], "a card of another maker is none that it serves"
    assert judged("pip, for CUDA 12.4", old) == [], "a build does not take that one"
    assert judged("for CUDA 12.4", old, kind="nccl") == []


def test_a_cudnn_that_serves_one_of_two_cards_is_good_and_the_other_card_is_named() -> None:
    kits = (cuda("12.4.1"), Toolkit(kind="cudnn", version="9.1.0", path="/usr", note="for CUDA 12.4"))
    checks = table(machine(gpu("sm_35"), gpu("sm_86"), toolkits=kits))
    assert (checks["cudnn"].status, checks["cudnn"].found, checks["cudnn-9.1.0"].status) == ("ok", "9.1.0", "skip")
    alone = table(machine(gpu("sm_35"), toolkits=kits))
    assert (alone["cudnn"].status, alone["cudnn"].found, alone["cudnn-9.1.0"].status) == ("warn", None, "warn")


def test_a_toolkit_keeps_no_build_from_another_makers_card() -> None:
    subject = machine(gpu("sm_35"), gpu("gfx1100"), toolkits=(cuda("12.4.1"),))
    assert [misfit.blocking for misfit in cuda_misfits(subject, subject.toolkits[0])] == [True]


@pytest.mark.parametrize(("how", "status"), [("pci", "warn"), ("given", "warn"), ("nvml", "ok"), ("nvidia-smi", "ok")])
def test_a_card_that_its_driver_lists_is_driven_and_one_on_the_bus_is_judged(how: str, status: str) -> None:
    card = structs.replace(gpu("sm_35"), how=how)
    assert table(machine(card, drivers=Drivers(nvidia="580.95.05")))["nvidia-driver"].status == status


@pytest.mark.parametrize(
    ("works", "gpu_works", "status"),
    [
        (None, None, "skip"),
        (None, True, "skip"),
        (None, False, "warn"),
        (True, None, "ok"),
        (True, True, "ok"),
        (True, False, "warn"),
        (False, None, "warn"),
        (False, True, "warn"),
    ],
)
def test_a_torch_is_good_only_where_nothing_of_it_failed(
    works: bool | None, gpu_works: bool | None, status: str
) -> None:
    installed = structs.replace(torch("2.6.0"), works=works, gpu_works=gpu_works)
    assert table(structs.replace(machine(), torches=(installed,)))["torch"].status == status


def test_a_rocm_fits_where_it_lists_one_of_the_cards() -> None:
    def misfit(version: str, *archs: str) -> str | None:
        toolkit = Toolkit(kind="rocm", version=version, path="/opt/rocm")
        return rocm_misfit(machine(*(gpu(arch, f"a {arch}") for arch in archs)), toolkit)

    assert misfit("6.2.4", "gfx1030") is None and misfit("6.2.4", "gfx803", "gfx1030") is None
    said = misfit("6.2.4", "gfx803", "gfx1010") or ""
    assert said.startswith("AMD does not list gfx803 (a gfx803), gfx1010 (a gfx1010) for ROCm 6.2.4")
    assert misfit("99.0", "gfx803") is None and misfit("6.2.4", "sm_86") is None and misfit("6.2.4") is None


def test_a_cudnn_belongs_to_a_toolkit_of_the_system_not_to_one_of_pip() -> None:
    cudnn = Toolkit(kind="cudnn", version="9.1.0", path="/usr", note="for CUDA 12")
    pip = "/x/lib/python3.12/site-packages/nvidia/cuda_runtime"
    twelve = Toolkit(kind="cuda", version="12.4", path=pip, note="pip")
    assert len(cudnn_misfits(machine(toolkits=(cuda("11.8"), cudnn)))) == 1
    assert cudnn_misfits(machine(toolkits=(cuda("11.8"), cuda("12.1"), cudnn))) == []
    assert cudnn_misfits(machine(toolkits=(cudnn,))) == []
    assert len(cudnn_misfits(machine(toolkits=(cuda("11.8"), twelve, cudnn)))) == 1, "pip's has no compiler"
    rocm = Toolkit(kind="rocm", version="12.0", path="/opt/rocm")
    (only,) = cudnn_misfits(machine(toolkits=(cuda("11.8"), rocm, cudnn)))
    assert only.why.endswith("the toolkit here is CUDA 11.8")


@pytest.mark.parametrize(
    ("system", "want"), [("windows", "a C++ compiler (msvc)"), ("linux", "a C++ compiler (gcc or clang)")]
)
def test_the_compiler_that_is_wanted_is_that_of_the_system(system: str, want: str) -> None:
    check = table(machine(system=system))["compiler"]
    assert (check.status, check.want) == ("fail", want)


@pytest.mark.parametrize(
    ("path", "long_paths", "words"),
    [
        ("C:\\rk", False, None),
        ("C:\\my rk", False, "it has a space"),
        ("C:\\Bänk", False, "outside ASCII"),
        ("C:\\" + "x" * 200, False, "203 characters long"),
        ("C:\\" + "x" * 200, True, None),
    ],
)
def test_windows_wants_a_short_plain_path(path: str, long_paths: bool, words: str | None) -> None:
    subject = machine(system="windows")
    subject = structs.replace(subject, os=structs.replace(subject.os, long_paths=long_paths))
    case = ExaminedMachine(machine=subject, graphics=Graphics(), managers=(), workspace=path)
    (check,) = [check for check in check_machine(case)[0] if check.id == "workspace-path"]
    assert check.status == ("ok" if words is None else "warn")
    assert words is None or words in (check.why or "")
    assert "workspace-path" not in table(machine())


def test_just_enough_memory_is_enough() -> None:
    least = build_needs().memory_gib
    for memory, status in ((least, "ok"), (least - 0.1, "warn"), (None, "skip")):
        check = table(machine(memory_gib=memory))["memory"]
        assert check.status == status and (check.fix is not None) == (status == "warn")
    assert "(limit of a container)" in str(
        table(machine(memory_gib=1.0, memory_limited_by="a container"))["memory"].found
    )


def test_the_driver_of_a_board_is_not_judged_by_the_numbers_of_others() -> None:
    def misfit(arch: str) -> str | None:
        subject = machine(gpu("sm_87"), drivers=Drivers(nvidia="470.256.02"))
        return driver_misfit(structs.replace(subject, os=structs.replace(subject.os, arch=arch)), "12.4")

    assert misfit("aarch64") is None and "needs NVIDIA driver" in str(misfit("x86_64"))
    assert driver_misfit(machine(gpu("sm_86")), "12.4") is None, "no driver is no old one"


def test_a_rocm_is_asked_for_by_what_is_missing_of_it() -> None:
    card = gpu("gfx1100")
    libraries = Toolkit(kind="rocm", version="6.2.4", path="/opt/rocm", note="no hipcc")
    assert "knows the card" in (table(machine(card))["rocm"].want or "")
    check = table(machine(card, toolkits=(libraries,)))["rocm"]
    assert (check.status, check.want, check.found) == ("fail", "a ROCm with its compiler (hipcc)", "6.2.4")
    whole = (Toolkit(kind="rocm", version="6.4.1", path="/opt/a"), Toolkit(kind="rocm", path="/opt/b"))
    assert table(machine(card, toolkits=(libraries, *whole)))["rocm"].found == "6.4.1, ?"


@pytest.mark.parametrize(("version", "status"), [("3.18.0", "ok"), ("3.17.9", "fail"), ("?", "ok"), (None, "fail")])
def test_a_program_must_not_be_too_old(version: str | None, status: str) -> None:
    check = table(machine(tools={"cmake": version, "git": "2.39"}))["cmake"]
    assert (check.status, check.want) == (status, f"{load_facts().era('2.0.0').cmake_min} or newer")
    assert table(machine(tools={"git": "2.39"}))["git"].want is None


def test_a_card_of_unknown_make_is_not_held_against_a_driver() -> None:
    unknown = Gpu(vendor="nvidia", name="new")
    drivers = Drivers(nvidia="580.95.05")
    assert driver_misfit(machine(unknown, drivers=drivers), None) is None
    why = driver_misfit(machine(gpu("sm_35", "K40c"), unknown, drivers=drivers), None) or ""
    assert "K40c (sm_35)" in why and "new" not in why


@pytest.mark.parametrize(
    ("system", "note", "status"),
    [
        ("windows", "MSVC 14.4, Windows SDK 10.0.22621.0", "ok"),
        ("windows", "MSVC 14.4, Windows SDK missing", "fail"),
        ("linux", "Windows SDK 10.0", None),
    ],
)
def test_visual_studio_must_find_a_windows_sdk(system: str, note: str, status: str | None) -> None:
    studio = Compiler(kind="msvc", version="19.40", note=note)
    gaps = (Gap(what="the clock", why="no tool"), Gap(what="Windows SDK", why="not installed"))
    check = table(machine(system=system, compilers=(studio,)), gaps=gaps).get("msvc-environment")
    assert (check.status if check else None) == status
    assert check is None or check.why == (None if status == "ok" else "not installed")
    assert "msvc-environment" not in table(machine(system=system))
