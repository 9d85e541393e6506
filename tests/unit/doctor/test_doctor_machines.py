"""Every captured machine, replayed: what it is, how that was learned, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rekindle import api
from rekindle.host.capture import read_capture
from rekindle.model.machine import Examination, Ready

MACHINES = Path(__file__).parents[2] / "machines"


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What must be found. GPUs as (name, architecture, how); checks as id → status."""

    os: dict[str, object]
    cpu: tuple[str | None, str | None, int | None, int | None]
    memory: float
    gpus: list[tuple[str, str, str]] = field(default_factory=list)
    nvidia: str | None = None
    amdgpu: str | None = None
    l4t: str | None = None
    toolkits: list[tuple[str, str]] = field(default_factory=list)
    compilers: list[tuple[str, str]] = field(default_factory=list)
    pythons: list[tuple[str, str]] = field(default_factory=list)
    checks: dict[str, str] = field(default_factory=dict)
    ready: tuple[bool, bool] = (True, True)  # build, use


EXPECTED = {
    "e5-2690v2-rtx3060-ubuntu2204": Expected(
        os={"system": "linux", "distro": "ubuntu 22.04", "glibc": "2.35", "wsl": False, "container": None},
        cpu=("Intel Xeon E5-2690 v2", "ivybridge", 20, 40),
        memory=62.8,
        gpus=[("NVIDIA GeForce RTX 3060", "sm_86", "nvml")],
        nvidia="535.183.01",
        toolkits=[
            ("cuda", "12.4.1"), ("cuda", "11.8.0"), ("cudnn", "8.9.7"), ("nccl", "2.16.5"), ("cudnn", "8.9.2"),
        ],
        compilers=[("gcc", "13.1.0"), ("gcc", "11.4.0"), ("clang", "14.0.0")],
        pythons=[("3.10.12", "system")],
        checks={"nvidia-driver": "ok", "cuda-toolkit": "ok", "torch": "ok", "compiler": "ok"},
    ),
    "k40c-windows10": Expected(
        os={"system": "windows", "distro": "windows 10 22H2", "glibc": None, "long_paths": False},
        cpu=("Intel Xeon E5-2670 v2", "ivybridge", 10, 20),
        memory=63.9,
        gpus=[("Quadro K600", "sm_30", "nvidia-smi"), ("Tesla K40c", "sm_35", "nvidia-smi")],
        nvidia="474.44",
        toolkits=[("cuda", "11.4.4"), ("cudnn", "8.7.0"), ("oneapi", "2023.2.0"), ("mkl", "2023.2.0")],
        compilers=[("msvc", "19.29.30133"), ("msvc", "19.16.27023")],
        pythons=[("3.10.11", "python.org"), ("3.9.18", "conda")],
        # CUDA 11.4 has nothing for the screen's K600, but serves the K40c.
        checks={"cuda-toolkit": "ok", "cuda-11.4.4": "skip", "cudnn": "ok", "long-paths": "fail"},
        ready=(False, True),
    ),
    "rtx5070-windows11": Expected(
        os={"system": "windows", "distro": "windows 11 24H2", "long_paths": True, "kernel": "10.0.26100.3775"},
        cpu=("Intel Core i7-5960X", "haswell", 8, 16),
        memory=31.8,
        gpus=[("NVIDIA GeForce RTX 5070", "sm_120", "nvml")],
        nvidia="576.52",
        toolkits=[("cuda", "12.3.2"), ("cudnn", "9.7.1"), ("cudnn", "9.7.1")],
        compilers=[("msvc", "19.44.35207")],
        pythons=[("3.12.9", "python.org"), ("3.11.9", "uv")],
        checks={
            "cuda-toolkit": "fail", "cuda-12.3.2": "warn", "torch": "warn", "file-locks": "warn", "ninja": "fail",
        },
        ready=(False, True),
    ),
    "mi25-ubuntu2004": Expected(
        os={"system": "linux", "distro": "ubuntu 20.04", "glibc": "2.31"},
        cpu=("AMD Ryzen 7 3700X", "zen2", 8, 16),
        memory=31.3,
        gpus=[("Radeon Instinct MI25", "gfx900", "kfd")],
        amdgpu="6.2.4",
        toolkits=[("rocm", "5.7.1")],
        compilers=[("gcc", "9.4.0")],
        pythons=[("3.8.10", "system")],
        checks={"amd-driver": "ok", "rocm": "ok", "python": "warn"},
    ),
    "rx580-debian12": Expected(
        os={"system": "linux", "distro": "debian 12", "glibc": "2.36"},
        cpu=("AMD Ryzen 7 3700X", "zen2", 8, 16),
        memory=31.3,
        gpus=[("Radeon RX 580 Series", "gfx803", "kfd")],
        amdgpu="kernel 6.1.0-21-amd64",
        compilers=[("gcc", "12.2.0")],
        pythons=[("3.11.2", "system")],
        # The kernel offers the card; this user may not open it.
        checks={"amd-driver": "fail", "rocm": "fail"},
        ready=(False, False),
    ),
    "rx7900xtx-fedora41": Expected(
        os={"system": "linux", "distro": "fedora 41", "glibc": "2.40"},
        cpu=("AMD Ryzen 9 7950X", "zen4", 16, 32),
        memory=62.0,
        gpus=[("Radeon RX 7900 XTX", "gfx1100", "kfd"), ("Radeon 610M", "gfx1036", "kfd")],
        amdgpu="kernel 6.11.10-300.fc41.x86_64",
        toolkits=[("rocm", "7.9.0")],
        compilers=[("gcc", "14.2.1")],
        pythons=[("3.13.0", "venv"), ("3.13.0", "system")],
        checks={"rocm": "ok", "python-headers": "ok"},
    ),
    "rx7900xtx-wsl2": Expected(
        os={"system": "linux", "distro": "ubuntu 24.04", "wsl": True, "virtual_machine": "wsl"},
        cpu=("AMD Ryzen 7 3700X", "zen2", 8, 16),
        memory=15.5,
        gpus=[("AMD Radeon RX 7900 XTX", "gfx1100", "rocminfo")],
        toolkits=[("rocm", "6.4.1")],
        compilers=[("gcc", "13.2.0")],
        pythons=[("3.12.3", "system")],
        checks={"python-headers": "fail", "amd-driver": "ok"},
        ready=(False, True),
    ),
    "gtx1080ti-wsl2": Expected(
        os={"system": "linux", "distro": "ubuntu 22.04", "wsl": True},
        cpu=("Intel Core i7-4790K", "haswell", 4, 8),
        memory=15.6,
        gpus=[("NVIDIA GeForce GTX 1080 Ti", "sm_61", "nvml")],
        nvidia="566.36",
        compilers=[("gcc", "11.4.0")],
        pythons=[("3.10.12", "system")],
        checks={"nvidia-driver": "ok", "cuda-toolkit": "fail", "cmake": "fail", "ninja": "fail"},
        ready=(False, True),
    ),
    "jetson-orin-nano": Expected(
        os={"system": "linux", "arch": "aarch64", "model": "NVIDIA Jetson Orin Nano Developer Kit"},
        cpu=("ARM Cortex-A78AE", "aarch64", 6, 6),
        memory=7.4,
        gpus=[("Jetson Orin Nano Developer Kit", "sm_87", "device-tree")],
        l4t="36.4.3",
        toolkits=[("cuda", "12.6.11"), ("cudnn", "9.3.0")],
        compilers=[("gcc", "11.4.0")],
        pythons=[("3.10.12", "system")],
        checks={"cuda-toolkit": "ok", "cudnn": "ok", "memory": "warn", "disk": "fail"},
        ready=(False, True),
    ),
    "docker-cgroup2-4gib": Expected(
        os={"system": "linux", "container": "docker"},
        cpu=("AMD EPYC 7402", "zen2", 24, 48),
        memory=4.0,
        compilers=[("gcc", "12.2.0")],
        pythons=[("3.11.9", "local")],
        checks={"memory": "warn", "disk": "fail"},
        ready=(False, True),
    ),
    "docker-cgroup1-16gib": Expected(
        os={"system": "linux", "container": "docker"},
        cpu=("Intel Xeon E5-2690 v2", "ivybridge", 20, 40),
        memory=16.0,
        compilers=[("gcc", "12.2.0")],
        pythons=[("3.11.9", "local")],
        checks={"memory": "ok"},
        ready=(False, True),
    ),
    "rtx3090-rx6700xt-arch": Expected(
        os={"system": "linux", "distro": "arch", "glibc": "2.40"},
        cpu=("AMD Ryzen 7 3700X", "zen2", 8, 16),
        memory=31.3,
        gpus=[("NVIDIA GeForce RTX 3090", "sm_86", "nvml"), ("Radeon RX 6700 XT", "gfx1031", "kfd")],
        nvidia="565.77",
        amdgpu="kernel 6.12.4-arch1-1",
        toolkits=[("cuda", "12.6.3"), ("rocm", "6.2.4")],
        compilers=[("gcc", "14.2.1")],
        pythons=[("3.13.1", "system")],
        checks={"cuda-toolkit": "fail", "cuda-12.6.3": "warn", "rocm-6.2.4": "warn"},
        ready=(False, True),
    ),
    "gtx970-nouveau-debian12": Expected(
        os={"system": "linux", "distro": "debian 12"},
        cpu=("Intel Core i7-4790K", "haswell", 4, 8),
        memory=15.5,
        gpus=[("GeForce GTX 970", "sm_52", "pci"), ("HD Graphics 4600", "xe_gen7", "pci")],
        compilers=[("gcc", "12.2.0")],
        pythons=[("3.11.2", "system")],
        checks={"nvidia-driver": "fail"},
        ready=(False, False),
    ),
    "rtx3060-driver-mismatch": Expected(
        os={"system": "linux", "distro": "ubuntu 22.04"},
        cpu=("Intel Xeon E5-2690 v2", "ivybridge", 20, 40),
        memory=62.8,
        gpus=[("GeForce RTX 3060 Lite Hash Rate", "sm_86", "pci")],
        nvidia="535.183.01",
        toolkits=[
            ("cuda", "12.4.1"), ("cuda", "11.8.0"), ("cudnn", "8.9.7"), ("nccl", "2.16.5"), ("cudnn", "8.9.2"),
        ],
        compilers=[("gcc", "13.1.0"), ("gcc", "11.4.0"), ("clang", "14.0.0")],
        pythons=[("3.10.12", "system")],
        checks={"nvidia-driver": "fail", "torch": "skip"},
        ready=(True, False),
    ),
    "h200-ubuntu2404": Expected(
        os={"system": "linux", "distro": "ubuntu 24.04", "glibc": "2.39", "virtual_machine": "kvm"},
        # A hypervisor hides some features of this Sapphire Rapids; what is left is what may be compiled for.
        cpu=("Intel Xeon", "icelake", 16, 16),
        memory=125.9,
        gpus=[("NVIDIA H200", "sm_90", "nvml")],
        nvidia="580.159.04",
        toolkits=[
            ("cuda", "13.0.88"), ("cudnn", "9.14.0"), ("nccl", "2.28.3"), ("openblas", "0.3.26"),
            ("cudnn", "9.19.0"), ("nccl", "2.28.9"),
        ],
        compilers=[("gcc", "13.3.0"), ("gcc", "13.3.0"), ("gcc", "12.4.0"), ("clang", "16.0.6")],
        pythons=[("3.12.3", "venv"), ("3.12.3", "system")],
        checks={"nvidia-driver": "ok", "cuda-toolkit": "ok", "torch": "ok", "ninja": "ok", "ccache": "warn"},
        ready=(True, True),
    ),
    "neoverse-debian12": Expected(
        os={"distro": "debian 12", "glibc": "2.36", "container": "docker", "virtual_machine": "unknown hypervisor"},
        cpu=("ARM Neoverse-N1", "neoverse_n1", 2, 2),
        memory=23.5,
        toolkits=[("cuda", "13.0.88"), ("openblas", "0.3.21")],
        compilers=[("gcc", "12.2.0"), ("gcc", "11.3.0"), ("clang", "15.0.6")],
        checks={"compiler": "ok", "ccache": "ok"},
    ),
}  # fmt: skip


def test_every_capture_has_its_expectation() -> None:
    assert {path.name for path in MACHINES.iterdir()} == set(EXPECTED)


@pytest.fixture(scope="module", params=sorted(EXPECTED))
def replayed(request: pytest.FixtureRequest) -> tuple[Examination, Expected]:
    return api.doctor(replay=MACHINES / request.param), EXPECTED[request.param]


def test_the_machine_is_known(replayed: tuple[Examination, Expected]) -> None:
    found, expected = replayed
    assert {name: getattr(found.os, name) for name in expected.os} == expected.os
    assert (found.cpu.name, found.cpu.microarchitecture, found.cpu.cores, found.cpu.threads) == expected.cpu
    assert found.memory_gib == expected.memory
    assert [(gpu.name, str(gpu.arch), gpu.how) for gpu in found.gpus] == expected.gpus
    drivers = found.drivers
    assert (drivers.nvidia, drivers.amdgpu, drivers.l4t) == (expected.nvidia, expected.amdgpu, expected.l4t)


def test_what_is_installed_is_found(replayed: tuple[Examination, Expected]) -> None:
    found, expected = replayed
    assert [(toolkit.kind, toolkit.version) for toolkit in found.toolkits] == expected.toolkits
    assert [(compiler.kind, compiler.version) for compiler in found.compilers] == expected.compilers
    if expected.pythons:
        assert [(python.version, python.kind) for python in found.pythons] == expected.pythons


def test_the_verdict_holds(replayed: tuple[Examination, Expected]) -> None:
    found, expected = replayed
    status = {check.id: check.status for check in found.checks}
    assert {name: status.get(name) for name in expected.checks} == expected.checks
    assert found.ready == Ready(build=expected.ready[0], use=expected.ready[1])
    for check in found.checks:
        assert check.status != "fail" or check.fix, f"{check.id} fails and names no way to mend it"


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_capture_names_its_sources(name: str) -> None:
    about = read_capture(MACHINES / name).about
    assert about["kind"] in ("recorded", "documented")
    assert about["title"] and about["sources"]
