"""The Pythons of a machine and their torches: what is found, what trying it says, and why it does not use the card."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from rekindle.doctor.pythons import code_of, find_torches, probe_installations, probe_pythons, torch_with_verdict
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.interpreter import InstalledPackage, Interpreter
from rekindle.model.machine import Drivers, Gpu, InstalledTorch, Machine, Os, System, Vendor

PYTHON = "/usr/bin/python3"
SITE = "/usr/lib/python3/dist-packages"
VERSION = f"{SITE}/torch/version.py"


def asking(**answers: object) -> Asking:
    record = Record(**{"machine": "x86_64", **answers})  # type: ignore[arg-type]
    return Asking(RecordedHost(record), "test")


def answer(version: str = "3.12.3", **more: Any) -> dict[str, Any]:
    return {"version": version, "implementation": "CPython", "prefix": "/usr", "base_prefix": "/usr", **more}


def on_path(count: int, **more: Any) -> Asking:
    paths = tuple(f"/opt/{number:02}/bin/python3" for number in range(count))
    return asking(programs={"python3": paths}, pythons={path: answer(executable=path, **more) for path in paths})


def test_no_more_than_24_pythons_are_asked() -> None:
    host = on_path(24)
    assert len(probe_pythons(host)[0]) == 24 and host.gaps == []
    host = on_path(25)
    assert len(probe_pythons(host)[0]) == 24
    assert [(gap.what, gap.why) for gap in host.gaps] == [("some Pythons", "only the first 24 of 25 were asked")]


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"headers": True, "bits": 64}, None),
        ({"headers": True}, None),
        ({"headers": False, "bits": 64}, "no headers (Python.h)"),
        ({"headers": True, "bits": 32}, "32 bit: no torch is published for it"),
        ({"headers": False, "bits": 32}, "32 bit: no torch is published for it"),
    ],
)
def test_what_a_python_lacks_is_noted(more: dict[str, object], note: str | None) -> None:
    [python] = probe_pythons(on_path(1, **more))[0]
    assert python.note == note


def test_the_newest_python_comes_first_and_each_once() -> None:
    old, new, link = "/usr/bin/python3", "/opt/bin/python3", "/opt/other/python3"
    answers = {old: answer("3.9.2", executable=old), new: answer("3.11.4", executable=new)}
    host = asking(programs={"python3": (old, new, link)}, pythons={**answers, link: answers[new]})
    pythons, said = probe_pythons(host)
    assert [(python.version, python.path) for python in pythons] == [("3.11.4", new), ("3.9.2", old)]
    assert sorted(said) == [new, old]


def test_a_python_that_does_not_answer_as_one_is_a_gap() -> None:
    host = asking(programs={"python3": (PYTHON,)}, pythons={PYTHON: {"error": "cannot execute"}})
    assert probe_pythons(host)[0] == ()
    assert [(gap.what, gap.why) for gap in host.gaps] == [(f"Python {PYTHON}", "cannot execute")]


def installed(version: str = "2.6.0", path: str = SITE) -> Interpreter:
    return Interpreter(path=PYTHON, version="3.12.3", packages={"torch": InstalledPackage(version=version, path=path)})


def find(files: dict[str, str] | None = None, said: dict[str, Any] | None = None, **where: str) -> InstalledTorch:
    host = asking(files={path: text.encode() for path, text in (files or {}).items()}, torches={PYTHON: said})
    [torch] = find_torches(host, {PYTHON: installed(**where)}, try_it=False)
    return torch


def test_a_torch_says_in_a_file_what_it_was_built_for() -> None:
    text = "__version__ = '2.6.0+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n"
    torch = find({VERSION: text})
    assert (torch.version, torch.cuda, torch.rocm) == ("2.6.0+cu124", "12.4", None)
    assert (torch.python, torch.path) == (PYTHON, f"{SITE}/torch")
    torch = find({VERSION: '__version__ = "2.6.0+rocm6.2.4"\ncuda = None\nhip = "6.2.41134"\n'})
    assert (torch.version, torch.cuda, torch.rocm) == ("2.6.0+rocm6.2.4", None, "6.2.41134")


def test_a_torch_without_that_file_has_the_version_of_its_package() -> None:
    torch = find(version="1.13.1")
    assert (torch.version, torch.cuda, torch.rocm, torch.built_with) == ("1.13.1", None, None, ())
    assert (torch.works, torch.gpu_works, torch.why) == (None, None, None)


def test_the_switches_of_a_build_are_read_from_its_headers() -> None:
    files = {
        f"{SITE}/torch/include/ATen/Config.h": (
            "#define AT_MKLDNN_ENABLED() 1\n#define AT_MKL_ENABLED() 0\n"
            "#define AT_BUILD_WITH_LAPACK() 1\n#define AT_PARALLEL_OPENMP 1\n#define AT_POCKETFFT_ENABLED() 1\n"
        ),
        f"{SITE}/torch/include/ATen/cuda/CUDAConfig.h": "#define AT_CUDNN_ENABLED() 1\n#define AT_MAGMA_ENABLED() 0\n",
    }
    assert find(files).built_with == ("cudnn", "lapack", "mkldnn", "openmp")


def test_a_torch_of_windows_lies_below_backslashes() -> None:
    place = r"C:\Python312\Lib\site-packages"
    torch = find({rf"{place}\torch\version.py": "__version__ = '2.6.0+cu124'\n"}, path=place)
    assert (torch.version, torch.path) == ("2.6.0+cu124", rf"{place}\torch")


@pytest.mark.parametrize(
    ("said", "works", "why"),
    [
        ({"works": True}, True, None),
        ({"works": False, "error": "libcudart.so.12: not found"}, False, "libcudart.so.12: not found"),
        ({"works": True, "gpu_works": False, "gpu_error": "no kernel image"}, True, "no kernel image"),
        # A process that says nothing and just ends.
        ({"exit_code": -4}, False, "illegal instruction: it was built for a newer processor"),
        ({"exit_code": 0xC000001D}, False, "illegal instruction: it was built for a newer processor"),
        ({"exit_code": -1073741795}, False, "illegal instruction: it was built for a newer processor"),
        ({"exit_code": -11}, False, "it crashes while loading"),
        ({"exit_code": 0xC0000005}, False, "it crashes while loading"),
        ({"exit_code": -1073741819}, False, "it crashes while loading"),
        ({"exit_code": -9}, False, "it was killed while loading (out of memory?)"),
        ({"exit_code": 3, "error": "Bus error"}, False, "loading it ends with exit code 3: Bus error"),
        # It told that it works; how its process ended then is no matter.
        ({"works": True, "exit_code": -11}, True, None),
        ({"error": "it said nothing"}, None, "it said nothing"),
        ({}, None, None),
        (None, None, None),
    ],
)
def test_what_trying_a_torch_says(said: dict[str, Any] | None, works: bool | None, why: str | None) -> None:
    torch = find(said=said)
    assert (torch.works, torch.why) == (works, why)


def test_a_torch_that_was_tried_tells_its_card_and_its_code() -> None:
    torch = find(said={"works": True, "gpu_works": True, "arch_list": ["sm_86", "compute_90"]})
    assert (torch.gpu_works, torch.archs) == (True, ("sm_86", "compute_90"))


def test_a_torch_that_does_not_load_in_time_is_a_gap() -> None:
    host = asking(torches={PYTHON: {"error": "no answer within 4.0 s", "timed_out": True}})
    [torch] = find_torches(host, {PYTHON: installed()}, try_it=False)
    assert (torch.works, torch.why) == (None, None)
    assert [(gap.what, gap.why) for gap in host.gaps] == [("torch 2.6.0", "it did not load in time")]


def test_three_torches_are_tried_and_each_place_once() -> None:
    pythons = [f"/opt/{number}/bin/python" for number in range(5)]
    # The last Python uses the first one's packages.
    places = [f"/opt/{number % 4}/site-packages" for number in range(5)]
    answers = {python: installed(path=place) for python, place in zip(pythons, places, strict=True)}
    host = asking(torches={python: {"works": True} for python in pythons})
    torches = find_torches(host, answers, try_it=False)
    assert [(torch.python, torch.works) for torch in torches] == [
        (pythons[0], True), (pythons[1], True), (pythons[2], True), (pythons[3], None),
    ]  # fmt: skip


def test_a_python_without_torch_has_none() -> None:
    assert find_torches(asking(), {PYTHON: Interpreter(version="3.12.3")}, try_it=False) == ()


@pytest.mark.parametrize("deep", [False, True])
def test_a_torch_is_imported_only_where_that_was_asked_for(deep: bool) -> None:
    asked: list[bool] = []

    class Noting(RecordedHost):
        def torch(self, path: str, *, deep: bool = False, timeout: float = 6.0) -> dict[str, Any] | None:
            asked.append(deep)
            return {"works": True}

    package = {"version": "2.6.0", "path": SITE}
    record = Record(machine="x86_64", programs={"python3": (PYTHON,)})
    record.pythons[PYTHON] = answer(packages={"torch": package, "nvidia-cudnn_cu12": package})
    found = probe_installations(Asking(Noting(record), "test"), try_torch=deep)
    assert asked == [deep]
    assert [python.path for python in found.pythons] == [PYTHON]
    assert [torch.path for torch in found.torches] == [f"{SITE}/torch"]


def machine(*archs: str, system: System = "linux", driver: str | None = None, arch: str = "x86_64") -> Machine:
    makers: dict[str, Vendor] = {"sm": "nvidia", "gf": "amd", "xe": "intel"}
    gpus = tuple(Gpu(vendor=makers[name[:2]], name=f"a {name}", arch=parse_gpu_arch(name)) for name in archs)
    return Machine(os=Os(system=system, arch=arch), gpus=gpus, drivers=Drivers(nvidia=driver))


CUDA = InstalledTorch(version="2.6.0+cu124", python=PYTHON, cuda="12.4", works=True)
ROCM = InstalledTorch(version="2.6.0+rocm6.2.4", python=PYTHON, rocm="6.2.4", works=True)
CPU = InstalledTorch(version="2.6.0+cpu", python=PYTHON, works=True)
XPU = InstalledTorch(version="2.13.0+xpu", python=PYTHON, works=True)


@pytest.mark.parametrize(
    ("torch", "subject", "why"),
    [
        (CUDA, machine("sm_86"), None),
        (CUDA, machine("gfx1100"), "it is built for CUDA, and there is no such card"),
        (CUDA, machine("xe_bmg"), "it is built for CUDA, and there is no such card"),
        (ROCM, machine("gfx1100"), None),
        (ROCM, machine("sm_86"), "it is built for ROCm, and there is no such card"),
        (
            CUDA,
            machine("sm_86", "sm_35"),
            "it has no code for sm_35 (a sm_35), only for sm_50, sm_60, sm_70, sm_75, sm_80, sm_86, sm_90",
        ),
        # The neighbour's code runs, but only by an override, which a torch as installed does not have.
        (
            ROCM,
            machine("gfx1031"),
            "it has no gfx1031, but its gfx1030 code runs there under HSA_OVERRIDE_GFX_VERSION=10.3.0",
        ),
        (CPU, machine("sm_86"), "it is a CPU build, so it cannot use the GPU"),
        (XPU, machine("xe_bmg"), None),
        (XPU, machine("sm_86"), "it is built for Intel's GPUs, and there is no such card"),
        (XPU, machine("xe_bmg", arch="riscv64"), "it is a CPU build, so it cannot use the GPU"),
        (CUDA, machine(), None),
        (CPU, machine(), None),
        # Graphics that no torch ever drove are no reason to warn.
        (CPU, machine("xe_gen9"), None),
        (CUDA, machine("xe_gen9"), None),
    ],
)
def test_why_a_torch_cannot_use_the_card(torch: InstalledTorch, subject: Machine, why: str | None) -> None:
    judged = torch_with_verdict(subject, torch)
    assert (judged.why, judged.gpu_works) == (why, False if why else None)


def test_a_driver_that_is_too_old_is_why() -> None:
    assert "needs NVIDIA driver" in str(torch_with_verdict(machine("sm_86", driver="470.256"), CUDA).why)
    assert torch_with_verdict(machine("sm_86", driver="550.54"), CUDA).why is None


def test_what_was_tried_is_not_argued_with() -> None:
    failed = replace(CUDA, works=False, why="it crashes while loading")
    judged = torch_with_verdict(machine("sm_35"), failed)
    assert (judged.why, judged.gpu_works) == ("it crashes while loading", None)
    assert "sm_86" in judged.archs
    proven = replace(CUDA, gpu_works=True)
    assert (torch_with_verdict(machine("sm_35"), proven).why, proven.gpu_works) == (None, True)
    # The card's own complaint comes before the tables.
    judged = torch_with_verdict(machine("sm_35"), replace(CUDA, gpu_works=False, why="no kernel image"))
    assert (judged.why, judged.gpu_works) == ("no kernel image", False)
    # Whoever tried the card and knows of no reason has none from the tables either.
    judged = torch_with_verdict(machine("sm_86"), replace(CUDA, gpu_works=False))
    assert (judged.why, judged.gpu_works) == (None, False)


def test_a_complaint_on_a_machine_without_cards_says_nothing_of_cards() -> None:
    judged = torch_with_verdict(machine(), replace(CUDA, why="it said nothing"))
    assert (judged.why, judged.gpu_works) == ("it said nothing", None)


@pytest.mark.parametrize(
    ("torch", "subject", "targets"),
    [
        (CUDA, machine(), ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")),
        # Its own list comes before the table's.
        (
            InstalledTorch(version="2.6.0+cu124", python=PYTHON, cuda="12.4", archs=("sm_35",)),
            machine(),
            ("sm_35",),
        ),
        # A build of one's own, and a system for which nobody publishes.
        (InstalledTorch(version="2.6.0a0+gitabc", python=PYTHON, cuda="12.4"), machine(), ()),
        (CUDA, machine(arch="riscv64"), ()),
        (CPU, machine(), ()),
    ],
)
def test_which_cards_a_torch_has_code_for(torch: InstalledTorch, subject: Machine, targets: tuple[str, ...]) -> None:
    assert code_of(subject, torch).targets == targets


def test_the_table_s_targets_are_spelt_as_torch_spells_them() -> None:
    torch = InstalledTorch(version="2.8.0+cu129", python=PYTHON, cuda="12.9")
    names = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120")
    assert code_of(machine(), torch).targets == names


def test_code_that_the_driver_must_compile_asks_more_of_the_driver() -> None:
    own = InstalledTorch(version="2.6.0a0+gitabc", python=PYTHON, cuda="12.4", archs=("sm_80",), works=True)
    late = replace(own, archs=("compute_80",))
    old, new = machine("sm_86", driver="525.60.13"), machine("sm_86", driver="550.54.14")
    assert [torch_with_verdict(old, own).why, torch_with_verdict(new, late).why] == [None, None]
    assert torch_with_verdict(old, late).gpu_works is False


def test_a_cudnn_that_has_no_code_for_the_card_is_why() -> None:
    torch = InstalledTorch(version="2.6.0+cu118", python=PYTHON, cuda="11.8", works=True)
    assert str(torch_with_verdict(machine("sm_37"), torch).why).startswith("its cuDNN 9.1.0.70 has no code for sm_37")
    assert torch_with_verdict(machine("sm_86"), torch).why is None
