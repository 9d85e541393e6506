"""What is known besides the message: the machine, the log, the wheel, and which of them counts first."""

from __future__ import annotations

import pytest

import scenes
from rekindle.explain.engine import scene_of
from rekindle.explain.events import Event
from rekindle.explain.ranking import FILLS
from rekindle.explain.scene import Scene, capability, kernels_of, supported, to_sm, toolkit_of
from rekindle.model.arch import Gfx, Sm
from rekindle.model.machine import Gpu, Machine, Os, Toolkit
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport


def event(around: str = "", **values: str) -> Event:
    return Event(line=1, values=values, evidence="", text="", around=around, after="")


def scene(log: str = "", machine: Machine | None = None, wheel: WheelReport | None = None) -> Scene:
    return scene_of([log.encode()], machine=machine, wheel=wheel)


def machine(
    system: str = "linux", arch: str | None = "x86_64", *archs: Sm | Gfx, kits: tuple[tuple[str, str | None], ...] = ()
) -> Machine:
    return Machine(
        os=Os(system=system, arch=arch),  # type: ignore[arg-type]
        gpus=tuple(Gpu(vendor="nvidia", name="card", arch=sm) for sm in archs),
        toolkits=tuple(Toolkit(kind=kind, version=version) for kind, version in kits),
    )


@pytest.mark.parametrize(
    ("log", "given", "system", "platform"),
    [
        ("", None, None, "linux_x86_64"),
        ("Microsoft (R) C/C++\n", None, "windows", "windows"),
        ("xcrun: error\n", None, "macos", "linux_x86_64"),
        ("5.15.1-microsoft-standard-WSL2 Visual Studio\n", None, "linux", "linux_x86_64"),
        ("JetPack 6\n", None, "linux", "linux_aarch64"),
        ("uname -m: aarch64\n", None, None, "linux_aarch64"),
        ("Microsoft (R) C/C++\n", machine(), "linux", "linux_x86_64"),
        ("", machine("windows", "x86_64"), "windows", "windows"),
        ("", machine("linux", "aarch64"), "linux", "linux_aarch64"),
        ("", machine("linux", "arm64"), "linux", "linux_aarch64"),
        ("aarch64\n", machine("linux", "x86_64"), "linux", "linux_x86_64"),
        ("You're on Linux (`manylinux_2_39_x86_64`), but `torch` (v2.0) only has wheels for `win_amd64`\n", None, None,
         "linux_x86_64"),
        ("You're on Windows (`win_amd64`), but `torch` (v2.0) only has wheels for `macosx_11_0_arm64`\n", None,
         "windows", "windows"),
    ],
)  # fmt: skip
def test_the_system_is_the_machines_or_the_logs(
    log: str, given: Machine | None, system: str | None, platform: str
) -> None:
    here = scene(log, given)
    assert (here.system, here.platform) == (system, platform)


@pytest.mark.parametrize(
    ("archs", "card"),
    [
        ((Sm(8, 6),), Sm(8, 6)),
        ((Sm(8, 6), Sm(8, 6)), Sm(8, 6)),
        ((Sm(8, 6), Sm(9, 0)), None),
        ((Sm(8, 6), Gfx("gfx1030")), Sm(8, 6)),
        ((Gfx("gfx1030"),), None),
        ((), None),
    ],
)
def test_the_machines_only_card_is_the_card(archs: tuple[Sm | Gfx, ...], card: Sm | None) -> None:
    assert capability(event(), scene("", machine("linux", "x86_64", *archs))) == card


def test_the_log_counts_before_the_machine() -> None:
    here = scene("GPU 0 has compute capability 6.1\n", machine("linux", "x86_64", Sm(9, 0)))
    assert capability(event(), here) == Sm(6, 1)


@pytest.mark.parametrize(
    ("kits", "log", "around", "version"),
    [
        ((("cuda", "12.4.1"),), "", "", "12.4"),
        ((("cuda", "12.4.1"), ("cuda", "11.8.0")), "", "", None),
        ((("cuda", "12.4.1"), ("cudnn", "9.1")), "", "", "12.4"),
        ((("cuda", None),), "", "", None),
        ((), "", "", None),
        ((("cuda", "12.4.1"),), "Cuda compilation tools, release 11.8, V11.8.89\n", "", "11.8"),
        ((), "Cuda compilation tools, release 11.8, V11.8.89\n", "/usr/local/cuda-12.6/bin/nvcc -c x.cu", "12.6"),
        ((), "", "C:\\NVIDIA GPU Computing Toolkit\\CUDA\\v12.1\\bin\\nvcc.exe", "12.1"),
    ],
)
def test_the_toolkit_nearest_to_the_message_counts(
    kits: tuple[tuple[str, str | None], ...], log: str, around: str, version: str | None
) -> None:
    assert toolkit_of(event(around), scene(log, machine(kits=kits))) == version
    if not kits:
        assert toolkit_of(event(around), scene(log)) == version


def wheel(sass: tuple[str, ...] = (), ptx: tuple[str, ...] = (), declared: tuple[str, ...] = ()) -> WheelReport:
    gpu = WheelGpu(declared=declared, torch_kernels=Kernels(sass=sass, ptx=ptx))
    return WheelReport(name="torch", version="2.6.0+cu124", bytes=1, gpu=gpu)


def test_kernels_are_read_before_they_are_declared() -> None:
    assert kernels_of(wheel(("sm_80",), ("compute_90",), ("sm_50",))) == ("sm_80", "compute_90")
    assert kernels_of(wheel((), ("compute_90",), ("sm_50",))) == ("sm_50",)


def test_the_list_in_the_log_counts_before_the_installed_wheel() -> None:
    log = "The current PyTorch install supports CUDA capabilities sm_70 sm_80 compute_80.\n"
    assert supported(event(), scene(log, wheel=wheel(("sm_90",)))) == [Sm(7, 0), Sm(8, 0)]
    assert supported(event(), scene("", wheel=wheel(("sm_90", "sm_80"), ("compute_90",)))) == [Sm(8, 0), Sm(9, 0)]
    assert supported(event(supported="sm_60"), scene(log)) == [Sm(6, 0)]


def test_a_range_is_its_two_ends() -> None:
    log = (
        "Minimum and Maximum cuda capability supported by this version of PyTorch is (7.5) - (12.0)\n"
        "The current PyTorch install supports CUDA capabilities sm_80.\n"
    )
    assert supported(event(), scene(log)) == [Sm(7, 5), Sm(12, 0)]


@pytest.mark.parametrize(("text", "sm"), [("sm_86", Sm(8, 6)), ("8.6", Sm(8, 6)), ("", None), (None, None)])
def test_what_is_no_architecture_is_none(text: str | None, sm: Sm | None) -> None:
    assert to_sm(text) == sm


def test_the_sentence_about_what_torch_was_built_for() -> None:
    fill = FILLS["plan-for-card"]
    assert fill(event(), scene("torch 2.9.1+cu128 arch_list: ['sm_80', 'sm_90']\n"))["built_sentence"] == (
        "torch 2.9.1+cu128 was built for sm_80 sm_90."
    )
    assert fill(event(), scene("arch_list: ['sm_80']\n"))["built_sentence"] == "This torch was built for sm_80."
    assert "built_sentence" not in fill(event(), scene("nothing\n"))


def test_architectures_of_a_toolkit_without_their_special_kinds() -> None:
    archs = scene().toolkit_archs("12.8")
    assert Sm(9, 0) in archs and Sm(10, 0) in archs and not any(arch.suffix for arch in archs)
    assert list(archs) == sorted(archs) and scene().toolkit_archs("99.9") == ()


def test_a_card_of_another_maker_has_no_capability() -> None:
    named = scenes.scene({"gpu-name": scenes.seen(event(gpu_name="RX 6800"))})
    assert capability(event(), named) is None
    both = scenes.scene({"gpu-name": scenes.seen(event(gpu_name="RX 6800"), event(gpu_name="Tesla K80"))})
    assert capability(event(), both) == Sm(3, 7)


def test_half_a_range_is_none() -> None:
    assert supported(event(), scenes.scene(lowest="7.5", supported="sm_80")) == [Sm(8, 0)]
    assert supported(event(), scenes.scene(highest="12.0", supported="sm_80")) == [Sm(8, 0)]
    assert supported(event(), scenes.scene(lowest="7.5", highest="12.0", supported="sm_80")) == [Sm(7, 5), Sm(12, 0)]


def test_a_release_without_its_flavour_tells_nothing() -> None:
    assert supported(event(), scenes.scene(torch_version="2.9.1")) == []
    assert supported(event(), scenes.scene(torch_flavour="cu128")) == []
    assert supported(event(), scenes.scene(torch_version="2.9.1", torch_flavour="cu128"))[0] == Sm(7, 0)
    assert supported(event(supported="sm_80 sm_0 sm_90"), scene()) == [Sm(8, 0), Sm(9, 0)]
