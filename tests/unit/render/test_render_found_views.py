"""Whole views of what was found: machines, wheels and proofs. Documents are small, and each shows another branch."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.model.arch import parse_sm
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.document import Document
from rekindle.model.machine import (
    Check,
    Compiler,
    Cpu,
    Drivers,
    Examination,
    Gap,
    Gpu,
    InstalledTorch,
    Os,
    ProbeEvidence,
    Python,
    Ready,
    Toolkit,
    Volume,
)
from rekindle.model.verify import ProofCheck, ProofRecord, RecordReview, VerifyCheck, VerifyReport, WeighedRecord
from rekindle.model.wheel import (
    ArchSet,
    AxisVerdict,
    CodeEvidence,
    Difference,
    External,
    GuardUse,
    IsaUse,
    LibraryGpu,
    Links,
    Verdict,
    WheelCpu,
    WheelDiff,
    WheelFinding,
    WheelGpu,
    WheelReport,
    WheelShelf,
)
from views import expected_views, shown_both_ways

MACHINE = Examination(
    os=Os(
        system="linux",
        distro="debian-13",
        glibc="2.41",
        arch="x86_64",
        container="docker",
        virtual_machine="kvm",
        model="M",
    ),
    cpu=Cpu(name="Xeon", microarchitecture="haswell", cores=4, threads=8, allowed=2, features=("avx", "avx2")),
    memory_gib=16,
    memory_physical_gib=64,
    memory_limited_by="cgroup",
    swap_gib=2,
    disks=(Volume(purpose="builds", path="/b", free_gib=40), Volume(purpose="wheels", path="/w", free_gib=9)),
    gpus=(
        Gpu(vendor="nvidia", name="P100", arch=parse_sm("sm_60"), memory_gib=16, how="nvidia-smi", note="in use"),
        Gpu(vendor="amd", how="lspci"),
    ),
    drivers=Drivers(nvidia="580", amdgpu="6.4", l4t="36"),
    toolkits=(Toolkit(kind="cuda", version="13.0", path="/usr/cuda", note="from wheels"), Toolkit(kind="rocm")),
    compilers=(
        Compiler(kind="gcc", version="13", path="/usr/bin/gcc", note="no C++"),
        Compiler(kind="msvc", version="19", path="C:\\long", note="VS 2022"),
        Compiler(kind="clang", version="21"),
    ),
    pythons=(Python(version="3.12", path="/p", kind="venv", note="old pip"), Python(version="3.11")),
    torches=(
        InstalledTorch(version="2.6", python="/p", cuda="12.4", works=True),
        InstalledTorch(version="2.5", python="/q", path="/s", rocm="6", works=False),
        InstalledTorch(version="2.4", python="/q", gpu_works=True),
        InstalledTorch(version="2.3", python="/q", gpu_works=False),
    ),
    tools={"git": "2.4", "ninja": None},
    checks=(
        Check(id="driver", status="fail", needed_for=("use",), found="470", want=">= 550", fix="update it", why="old"),
        Check(id="nvcc", status="warn", needed_for=("use", "build"), want="13", fix="install it"),
        Check(id="git", status="ok", needed_for=("build",), found="2.4", want="2", fix="nothing"),
    ),
    ready=Ready(use=False, build=False),
    gaps=(Gap(what="the GPU's clock", why="no tool"),),
    evidence=(ProbeEvidence(probe="gpu", asked=f"nvidia-smi {'x' * 60}", said="P100"),),
)
BARE = Examination(
    os=Os(system="windows", wsl=True, virtual_machine="hyper-v"), disk_free_gib=5, ready=Ready(use=True, build=True)
)
THREADS = Examination(os=Os(system="linux"), cpu=Cpu(threads=8), memory_gib=8, ready=Ready(use=True, build=False))
SAME = Examination(os=Os(system="linux"), cpu=Cpu(cores=8, threads=8), memory_gib=8, ready=Ready(use=False, build=True))
GPU = WheelGpu(
    declared=("sm_80", "sm_90"),
    libraries=(
        LibraryGpu(
            file="torch/lib/a.so",
            sass=("sm_90", "sm_80"),
            ptx=("compute_90",),
            sets=(
                ArchSet(archs=("sm_80", "sm_90"), count=3, origin="own", kernels=("k",)),
                ArchSet(archs=("sm_90",), count=2, origin="static", kernels=("cublas", "cutlass")),
            ),
        ),
    ),
)
XPU = WheelGpu(
    libraries=(
        LibraryGpu(file="l/x.so", sycl={"spir64": 1, "spir64_gen": 2}, ahead=("bmg", "pvc")),
        LibraryGpu(file="l/y.so", sycl={"spir64": 3, "spir64_gen": 1}),
    )
)
CODE = WheelCpu(
    arch="x86_64",
    functions=9,
    runs_from="nehalem",
    oldest=("Core i7-920",),
    unconditional=(IsaUse(isa="sse4", functions=2, examples=("a", "b", "c", "d")),),
    suspects=(IsaUse(isa="avx", functions=1, examples=("e",)),),
    silent=(IsaUse(isa="lzcnt", functions=1),),
    dispatched=(IsaUse(isa="avx2", functions=7), IsaUse(isa="avx512f", functions=1)),
    evidence=tuple(CodeEvidence(file="l.so", function=f"f{n}", isa=("avx", "fma"), why="called") for n in range(6)),
    guards=(GuardUse(guard="cpuid", functions=4),),
    notes=("note",),
)
UNTOLD = WheelCpu(functions=1, at_least="nehalem", untold=(IsaUse(isa="avx", functions=1),))
LINKS = Links(
    needed=("libc.so.6",),
    glibc="2.28",
    glibcxx="3.4.25",
    cxx_abi="11",
    manylinux_claim="manylinux_2_28",
    bundled=("libgomp.so.1",),
    sources=(
        External(library="libcudnn.so.9", needed_by=("a.so",), package="nvidia-cudnn-cu12"),
        External(library="libx.so", needed_by=()),
        External(library="libc.so.6", needed_by=(), package="glibc", system=True),
    ),
)
FINDINGS = tuple(WheelFinding(code=s, severity=s, text=f"A {s}.") for s in ("error", "warning", "note"))
TORCH = WheelReport(
    name="torch",
    version="2.6",
    tags=("cp312",),
    bytes=800_000_000,
    read_bytes=1_500_000,
    cuda="12.4",
    requires_python=">=3.9",
    gpu=GPU,
    cpu=CODE,
    links=LINKS,
    findings=FINDINGS,
    verdict=Verdict(
        machine="P100",
        runs=True,
        axes=(
            AxisVerdict(axis="gpu", runs="partly", code="a", text="unused", remedy="graft"),
            AxisVerdict(axis="cpu", runs="yes", code="a", text="fits", remedy="none"),
            AxisVerdict(axis="libc", runs="no", code="a", text="old"),
            AxisVerdict(axis="python", runs="unknown", code="a", text="not told"),
        ),
    ),
)


RECORD = ProofRecord(
    package="torch",
    version="2.6",
    wheel_sha256="0" * 64,
    verdict="proven",
    level="full",
    claims=("cpu",),
    checks=(ProofCheck(id="a", status="passed"),),
    system="linux",
    arch="x86_64",
)


def judged(runs: bool | None) -> WheelReport:
    return WheelReport(name="torch", version="2", verdict=Verdict(machine="P100", runs=runs), quick=True)


VIEWS: dict[str, Document] = {
    "machine": MACHINE,
    "machine-bare": BARE,
    "machine-use": THREADS,
    "machine-build": SAME,
    "machine-limited": Examination(os=Os(system="linux"), memory_gib=8, memory_limited_by="cgroup"),
    "proof-cpu": VerifyReport(verdict="proven", subject="torch", claims=("cpu",), environment={"torch": "2.6"}),
    "proof-better": VerifyReport(
        verdict="failed",
        checks=(
            VerifyCheck(id="fft", status="passed", foretold="no fft", detail="right"),
            VerifyCheck(id="svd", status="failed", foretold="no svd", detail="wrong"),
            VerifyCheck(id="add", status="passed"),
        ),
        diagnosis=Diagnosis(matches=tuple(Match(id=f"m{n}", confidence="low", cause=f"C{n}.") for n in range(3))),
    ),
    "records": RecordReview(
        place="/r",
        good=False,
        records=(
            WeighedRecord(place="a", standing="counts", signer="me", record=RECORD),
            WeighedRecord(place="b", standing="hearsay", outlier=True, record=RECORD),
            WeighedRecord(place="c", standing="doubtful", why="odd"),
            WeighedRecord(place="d", standing="unreadable", why="torn"),
            WeighedRecord(place="e", standing="hearsay", outlier=True),
            WeighedRecord(place="f", standing="hearsay", record=RECORD),
        ),
    ),
    "wheel": TORCH,
    "wheel-runs": judged(True),
    "wheel-fails": judged(False),
    "wheel-untold": judged(None),
    "wheel-cpu": WheelReport(target="/w/a.whl", kind="installed", cpu=UNTOLD, rocm="6", bytes=1),
    "wheel-xpu": WheelReport(name="torch", version="2.8", gpu=XPU),
    "wheel-mixed": WheelReport(
        name="torch",
        gpu=WheelGpu(
            libraries=(
                *GPU.libraries,
                LibraryGpu(
                    file="l/hip.so",
                    gfx=("gfx942", "gfx90a"),
                    sets=(ArchSet(archs=("gfx90a", "gfx942"), count=1, origin="own"),),
                ),
                LibraryGpu(file="l/none.so"),
            )
        ),
        cpu=WheelCpu(functions=1, runs_from="nehalem", untold=(IsaUse(isa="avx", functions=1),)),
        links=Links(needed=("libc.so.6",), glibc="2.28"),
    ),
    "wheel-beside": WheelReport(name="xformers", version="1", gpu=WheelGpu(libraries=GPU.libraries)),
    "wheel-ptx": WheelReport(
        name="x", gpu=WheelGpu(libraries=(LibraryGpu(file="x.so", ptx=("compute_80",), lto=("lto_80",)),))
    ),
    "shelf": WheelShelf(
        place="/s",
        wheels=(TORCH, judged(False), WheelReport(target="b", cpu=UNTOLD), judged(None)),
        findings=FINDINGS[:1],
    ),
    "shelf-good": WheelShelf(place="/s", wheels=(TORCH,)),
    "shelf-none": WheelShelf(place="/s"),
    "diff": WheelDiff(
        before="a",
        after="b",
        differences=(
            Difference(what="archs", gone=("sm_50", "sm_60"), come=("sm_120",)),
            Difference(what="lost", gone=("x",)),
            Difference(what="new", come=("y",)),
            Difference(what="cuda", before="12.4", after="13.0"),
        ),
    ),
    "diff-none": WheelDiff(before="a", after="b"),
}

EXPECTED = expected_views(Path(__file__).parent / "views" / "found.txt")


@pytest.mark.parametrize("name", VIEWS)
def test_what_was_found_is_read_as_it_was_written(name: str) -> None:
    assert shown_both_ways(VIEWS[name]) == EXPECTED[name], "if the new text is better, write it into views/found.txt"
