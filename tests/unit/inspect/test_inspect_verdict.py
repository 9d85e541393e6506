"""Verdicts per axis: the real rule per container, the worst axis first, unknown is not no."""

from __future__ import annotations

import msgspec
import pytest

from rekindle.inspect.verdict import verdict_for
from rekindle.model.arch import parse_gfx, parse_sm
from rekindle.model.machine import Cpu, Drivers, Gpu, Machine, Os, Python
from rekindle.model.wheel import (
    ArchSet,
    CodeEvidence,
    DataFiles,
    IsaUse,
    Kernels,
    LibraryGpu,
    Links,
    Verdict,
    WheelCpu,
    WheelGpu,
    WheelReport,
)


def library(*sets: tuple[str, str, int]) -> LibraryGpu:
    rows = tuple(ArchSet(archs=tuple(archs.split()), count=count, origin=origin) for archs, origin, count in sets)  # type: ignore[arg-type]
    return LibraryGpu(file="torch/lib/libtorch_cuda.so", sets=rows)


OWN = "sm_37 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86"
OLD = WheelReport(
    tags=("cp311-cp311-linux_x86_64",),
    cuda="11.7",
    gpu=WheelGpu(
        torch_kernels=Kernels(sass=tuple(OWN.split())),
        libraries=(
            library(
                (OWN, "own", 221),
                ("sm_35 sm_50 sm_60 sm_70 sm_75 sm_80 sm_86", "static", 50),
                ("sm_80", "specialised", 16),
            ),
        ),
    ),
    cpu=WheelCpu(arch="x86_64", functions=10, runs_from="x86-64"),
    links=Links(glibc="2.17"),
)


def machine(gpu: str | None = None, **more: object) -> Machine:
    gpus: tuple[Gpu, ...] = ()
    if gpu:
        vendor = "amd" if gpu.startswith("gfx") else "nvidia"
        gpus = (Gpu(vendor=vendor, arch=parse_gfx(gpu) if vendor == "amd" else parse_sm(gpu)),)  # type: ignore[arg-type]
    fields = {"os": Os(system="linux", arch="x86_64"), "gpus": gpus, **more}
    return Machine(**fields)  # type: ignore[arg-type]


def axis(verdict: Verdict, name: str) -> str:
    return next(one.runs for one in verdict.axes if one.axis == name)


def test_a_static_library_does_not_make_a_card_run() -> None:
    verdict = verdict_for(OLD, machine("sm_35"), "K40c")
    assert verdict.runs is False
    assert verdict.axes[0].axis == "gpu"
    assert "static" in verdict.axes[0].text


@pytest.mark.parametrize(
    ("gpu", "runs"), [("sm_37", "yes"), ("sm_75", "yes"), ("sm_89", "yes"), ("sm_90", "no"), ("sm_120", "no")]
)
def test_same_major_equal_or_lower_minor(gpu: str, runs: str) -> None:
    assert axis(verdict_for(OLD, machine(gpu), "x"), "gpu") == runs


def test_kernels_of_a_static_library_that_miss_the_card_are_named() -> None:
    gpu = WheelGpu(libraries=(library(("sm_75 sm_80", "own", 1), ("sm_80 sm_86", "static", 32)),))
    verdict = verdict_for(msgspec.structs.replace(OLD, gpu=gpu), machine("sm_75"), "T4")
    assert verdict.runs is True
    assert axis(verdict, "gpu") == "partly"
    assert "32 of 33" in verdict.axes[0].text


def test_amd_needs_its_own_chip_and_rocblas_files() -> None:
    gpu = WheelGpu(
        libraries=(LibraryGpu(file="l.so", sets=(ArchSet(archs=("gfx906", "gfx90a:xnack-"), count=9, origin="own"),)),),
        data_files=(DataFiles(library="rocBLAS", gfx=("gfx90a",), files=3),),
    )
    report = msgspec.structs.replace(OLD, gpu=gpu, cuda=None, rocm="6.1")
    assert axis(verdict_for(report, machine("gfx906"), "MI50"), "gpu") == "no"
    assert axis(verdict_for(report, machine("gfx90a"), "MI210"), "gpu") == "yes"
    assert axis(verdict_for(report, machine("gfx1030"), "6800"), "gpu") == "no"


def amd_only(*archs: str) -> WheelReport:
    return msgspec.structs.replace(OLD, cuda=None, gpu=WheelGpu(libraries=(library((" ".join(archs), "own", 3)),)))


def test_generic_code_runs_on_the_chips_it_covers() -> None:
    report = amd_only("gfx1030", "gfx11-generic")
    assert axis(verdict_for(report, machine("gfx1151"), "Strix Halo"), "gpu") == "yes"
    assert axis(verdict_for(report, machine("gfx1036"), "Raphael"), "gpu") == "partly"
    windows = Os(system="windows", arch="x86_64")
    assert axis(verdict_for(report, machine("gfx1031", os=windows), "6700"), "gpu") == "no"


def test_what_depends_is_not_told() -> None:
    only_spirv = verdict_for(amd_only("amdgcnspirv"), machine("gfx1100"), "7900")
    assert axis(only_spirv, "gpu") == "unknown"
    assert only_spirv.runs is None
    assert any("SPIR-V" in one.text for one in only_spirv.axes)
    switch = verdict_for(amd_only("gfx90a:xnack+"), machine("gfx90a"), "MI210")
    assert axis(switch, "gpu") == "unknown"
    assert any("how xnack stands" in one.text for one in switch.axes)
    assert axis(verdict_for(amd_only("amdgcnspirv"), machine("sm_86"), "3090"), "gpu") == "no"


def test_the_cpu_axis() -> None:
    needs_avx2 = WheelCpu(
        arch="x86_64", functions=9, required=("avx2",), runs_from="x86-64-v3",
        unconditional=(IsaUse(isa="avx2", functions=1, examples=("spark::checksum",)),),
        evidence=(CodeEvidence(function="spark::checksum", file="l.so", isa=("avx2",), why="exported"),),
    )  # fmt: skip
    report = msgspec.structs.replace(OLD, cpu=needs_avx2)
    old = machine(cpu=Cpu(microarchitecture="ivybridge", features=("avx", "f16c")))
    new = machine(cpu=Cpu(microarchitecture="haswell", features=("avx", "avx2")))
    assert verdict_for(report, old, "x").runs is False
    assert axis(verdict_for(report, new, "x"), "cpu") == "yes"
    corner = msgspec.structs.replace(needs_avx2, required=())
    assert axis(verdict_for(msgspec.structs.replace(OLD, cpu=corner), old, "x"), "cpu") == "partly"
    assert axis(verdict_for(report, machine(), "x"), "cpu") == "unknown"


def test_glibc_python_system_and_driver() -> None:
    assert axis(verdict_for(OLD, machine(os=Os(system="linux", arch="x86_64", glibc="2.12")), "x"), "libc") == "no"
    assert axis(verdict_for(OLD, machine(os=Os(system="windows", arch="x86_64")), "x"), "system") == "no"
    assert axis(verdict_for(OLD, machine(os=Os(system="linux", arch="aarch64")), "x"), "system") == "no"
    assert axis(verdict_for(OLD, machine(pythons=(Python(version="3.9.1"),)), "x"), "python") == "no"
    assert axis(verdict_for(OLD, machine(pythons=(Python(version="3.11.4"),)), "x"), "python") == "yes"
    assert axis(verdict_for(OLD, machine("sm_80", drivers=Drivers(nvidia="390.10")), "x"), "driver") == "no"
    assert axis(verdict_for(OLD, machine("sm_80", drivers=Drivers(nvidia="535.10")), "x"), "driver") == "yes"


def test_the_worst_axis_comes_first() -> None:
    order = [one.runs for one in verdict_for(OLD, machine("sm_120"), "x").axes]
    rank = {"no": 0, "partly": 1, "unknown": 2, "yes": 3}
    assert order == sorted(order, key=lambda runs: rank[runs])


def test_an_official_wheel_is_refused_for_a_cpu_only_where_somebody_saw_it() -> None:
    """The planner offers it there; places that the reading found are named, and no more is said."""
    read = WheelCpu(
        arch="aarch64", functions=9, required=("sve",), runs_from="armv8-a+sve",
        evidence=(CodeEvidence(function="somewhere", file="l.so", isa=("sve",), why="exported"),),
    )  # fmt: skip
    official = msgspec.structs.replace(OLD, name="torch", version="2.7.1+cu128", cuda="12.8", cpu=read)
    arm = machine(cpu=Cpu(features=("asimd", "atomics")), os=Os(system="linux", arch="aarch64"))
    assert axis(verdict_for(official, arm, "N1"), "cpu") == "partly"
    own = msgspec.structs.replace(official, version="2.7.1+mine")
    assert axis(verdict_for(own, arm, "N1"), "cpu") == "no"
    # What runs while it is loaded ends it everywhere, whoever made it.
    at_load = msgspec.structs.replace(official, cpu=msgspec.structs.replace(read, at_load=("sve",)))
    refused = verdict_for(at_load, arm, "N1")
    assert axis(refused, "cpu") == "no"
    assert any("does not start" in one.text for one in refused.axes if one.axis == "cpu")
    newer = machine(cpu=Cpu(features=("asimd", "atomics", "sve")), os=Os(system="linux", arch="aarch64"))
    assert axis(verdict_for(at_load, newer, "V1"), "cpu") == "yes"
    crash = msgspec.structs.replace(read, arch="x86_64", required=("avx",))
    old = msgspec.structs.replace(official, version="1.6.0+cu101", cuda="10.1", cpu=crash)
    assert axis(verdict_for(old, machine(cpu=Cpu(features=("sse4_2",))), "Nehalem"), "cpu") == "no"
