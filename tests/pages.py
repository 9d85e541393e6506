"""One rich page of every kind of report, as awkward as they come: long names, digests, many columns, many checks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rekindle import api
from rekindle.api.page import ask_planner
from rekindle.build.governor import Sample
from rekindle.build.report import write_report
from rekindle.facts import load_facts
from rekindle.index.pages.grid import fill, questions
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.index.wheelhouse.reading import parse_name
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.build import BuildFailure, BuildResult, Fact, Phase
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.document import encode
from rekindle.model.journey import Journey, Leg
from rekindle.model.matrix import CellRow, CellState, MatrixStatus
from rekindle.model.plan import BuildRecipe, Plan, Reason, Wish
from rekindle.model.verify import Missing, VerifyCheck, VerifyReport
from rekindle.model.wheel import ArchSet, ArchUse, IsaUse, LibraryGpu, Links, WheelCpu, WheelGpu, WheelReport
from rekindle.model.wheelhouse import StoredWheel
from rekindle.render.pages import render_journey_html, render_matrix_html, verify_page, wheel_page

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
WHEEL = "torch-2.14.1+cu126.kepler.maxwell-cp312-cp312-manylinux_2_28_x86_64.whl"
ARCHS = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120")
LEGS = ("probe", "plan", "check", "fetch", "patch", "build", "inspect", "bundle", "install", "verify")


def plan() -> Plan:
    made = api.plan(api.machine_from_flags(gpu=["Tesla K40c"], os="linux"), Wish(companions=("bitsandbytes", "vllm")))
    assert made.build is not None
    return made


def proof() -> VerifyReport:
    checks = [
        VerifyCheck(
            id=f"conv2d-backward-{number}", status="failed" if number == 3 else "passed", seconds=number / 7,
            detail="largest error 3.1e-07 of 1e-05 allowed against float64 on the CPU" * (1 + number % 2),
        )
        for number in range(30)
    ]  # fmt: skip
    return VerifyReport(
        verdict="failed", checks=tuple(checks), passed=29, failed=1, subject=WHEEL,
        missing=(Missing(id="cuda-matmul", why="no GPU on this machine"),),
        environment={"python": "/srv/someone/a long path/with spaces/.venv/bin/python", "torch": "2.14.1+cu126"},
    )  # fmt: skip


def journey(arrived: bool = True) -> Journey:
    legs = tuple(
        Leg(name=name, status="kept" if name == "fetch" else "done", seconds=3.7 ** (number % 7),
            detail=f"{name}: {WHEEL} in /srv/someone/a long path/with spaces/{'x' * 60}")
        for number, name in enumerate(LEGS)
    )  # fmt: skip
    failure = BuildFailure(
        project="torch", phase="compile", message="cc1plus was killed",
        error=("g++: fatal error: Killed signal terminated program cc1plus " + "-I/very/long/include" * 9,),
        diagnosis=Diagnosis(matches=(Match(id="oom", confidence="high", cause="No memory was left.", fix=("-j 2",)),)),
    )  # fmt: skip
    return Journey(
        goal="torch 2.14.1", arrived=arrived, workspace="/srv/someone/.local/share/rekindle/default",
        verdict="torch 2.14.1 runs on this machine: 30 checks passed" if arrived else "torch 2.14.1 was not built",
        legs=legs, machine="debian 12, Intel Xeon E5-2690 v2, 64 GiB, Tesla K40c", plan=plan(),
        wheel=f"/w/{WHEEL}", wheel_sha256=SHA, inspection=wheel(), verification=proof() if arrived else None,
        failure=None if arrived else failure,
    )  # fmt: skip


def wheel() -> WheelReport:
    uses = tuple(ArchUse(arch=arch, entries=300 + number, bytes=1) for number, arch in enumerate(ARCHS))
    sets = (
        ArchSet(archs=ARCHS[:7], count=341, origin="own"), ArchSet(archs=ARCHS[4:], count=32, origin="static"),
        ArchSet(archs=("sm_90a",), count=2, origin="specialised", kernels=("cutlass::gemm::kernel::GemmUniversal",)),
    )  # fmt: skip
    libraries = tuple(
        LibraryGpu(file=f"torch/lib/libtorch_{name}.so", sass=ARCHS, ptx=("compute_90",), uses=uses, sets=sets)
        for name in ("cuda", "cuda_linalg", "nvshmem_and_a_rather_long_name", "cufft_static", "c10d")
    )
    cpu = WheelCpu(
        functions=182_000, runs_from="x86-64-v2", oldest=("nehalem", "westmere"),
        unconditional=(IsaUse(isa="avx2", functions=12, examples=("a", "b")),),
        dispatched=(IsaUse(isa="avx512", functions=8120), IsaUse(isa="avx2", functions=20_000)),
        notes=("code made at run time is not in the file",),
    )  # fmt: skip
    links = Links(glibc="2.28", glibcxx="3.4.25", external=("libcuda.so.1", "libcudart.so.12"))
    return WheelReport(
        target=WHEEL, name="torch", version="2.14.1+cu126", tags=("cp312-cp312-manylinux_2_28_x86_64",),
        bytes=766_700_000, cuda="12.6", gpu=WheelGpu(declared=ARCHS, libraries=libraries), cpu=cpu, links=links,
    )  # fmt: skip


def build(folder: Path) -> str:
    steps = [
        f"{n * 40}\t{n * 40 + 900 + 37 * (n % 11)}\t1\tcaffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/cpu/"
        f"{'VeryLongKernelName' * 2}{n}.cpp.o\t{n:x}"
        for n in range(300)
    ]
    (folder / ".ninja_log").write_text("# ninja log v6\n" + "\n".join(steps) + "\n")
    recipe = BuildRecipe(source="https://github.com/pytorch/pytorch")
    result = BuildResult(
        project="torch", wheel=f"/w/{WHEEL}", wheel_sha256=SHA, plan_digest=SHA, python="3.12",
        plan=Plan(answer="build", torch="2.14.1", build=recipe, because=(Reason(code="x", text="y"),)),
        phases=(Phase(name="configure", seconds=75.0), Phase(name="compile", seconds=16_230.0)),
        environment={"TORCH_CUDA_ARCH_LIST": "3.5;5.0;6.1", "CMAKE_PREFIX_PATH": "/a/very/long/prefix:" * 9},
        facts=tuple(Fact(name=f"USE_{name}", wanted="ON", found="ON", ok=True) for name in ("CUDA", "CUDNN", "NCCL")),
        peak_memory_bytes=14 << 30, memory_budget_bytes=16 << 30, launcher={"cache hits": "812", "cache misses": "401"},
    )  # fmt: skip
    samples = [
        Sample(seconds=n, used=(n % 40) << 28, available=1, running=n % 9, paused=0, allowed=9) for n in range(99)
    ]
    write_report(folder / "build.html", result, folder, samples, None)
    return (folder / "build.html").read_text(encoding="utf-8")


def matrix() -> MatrixStatus:
    rows = []
    for number, name in enumerate(("torch-2.14.1-cu126-kepler", "torch-2.7.1-cu118-maxwell-and-pascal")):
        for python in ("3.10", "3.11", "3.12", "3.13"):
            stage = "failed" if number and python == "3.13" else "proven"
            state = CellState(id=f"{name}{python}", stage=stage, seconds=5000.0)  # type: ignore[arg-type]
            cell = f"{name}{python}"
            rows.append(
                CellRow(cell=cell, name=f"{name}-py{python}", state=state, rebuild=False, because="nothing changed")
            )
    return MatrixStatus(
        root="/srv/someone/matrix/with a long name/and another", rows=tuple(rows), counts={"proven": 7, "failed": 1}
    )


def house(folder: Path) -> dict[str, Path]:
    """The pages of a wheelhouse, with wheels proven, read, failed, withdrawn and never read."""
    place = Wheelhouse(folder / "house")
    good = VerifyReport(verdict="proven", passed=28, environment={"gpu0": "Tesla K40c, sm_35, 11.2 GiB", "os": "x"})
    bad = VerifyReport(verdict="failed", passed=8, failed=2, environment={"gpu0": "GTX 1080, sm_61, 8 GiB"})
    for python in ("cp310", "cp311", "cp312"):
        for platform in ("manylinux_2_28_x86_64", "win_amd64"):
            tags = f"{python}-{python}-{platform}"
            _keep(place, f"torch-2.0.1+kepler.and.maxwell-{tags}.whl", wheel(), proofs=(good,))
            _keep(place, f"torch-2.14.1-{tags}.whl", wheel())
    _keep(place, "torch-2.6.0-cp311-cp311-linux_x86_64.whl", wheel(), proofs=(bad,))
    _keep(place, "torch-2.7.0-cp311-cp311-linux_x86_64.whl", None)
    _keep(place, "torch-2.8.0-cp311-cp311-linux_x86_64.whl", wheel(), yanked="built without cuDNN by mistake")
    api.index_build(str(place.root))
    gpus = ("none", "sm_35")
    asks = [ask for ask in questions(gpus) if ask.cpu == "" and ask.python == ""]
    grid = fill(gpus, ((ask, ask_planner([ask])[0]) for ask in asks))
    text, _ = render_page(load_facts(), grid, load_wheels(str(place.root)), base="")
    (place.root / "index.html").write_text(text, encoding="utf-8")
    pages = place.root / "wheel"
    return {
        "finder": place.root / "index.html",
        "projects": pages / "index.html",
        "project": pages / "torch/index.html",
        "wheel": pages / "torch/torch-2.0.1+kepler.and.maxwell-cp310-cp310-win_amd64.whl.html",
        "wheel-failed": pages / "torch/torch-2.6.0-cp311-cp311-linux_x86_64.whl.html",
    }


def _keep(
    place: Wheelhouse,
    file: str,
    report: WheelReport | None,
    proofs: tuple[VerifyReport, ...] = (),
    yanked: str | None = None,
) -> None:
    name = parse_name(file)
    entry = StoredWheel(
        file=file, project=name.project, version=str(name.version), tags=name.tag_strings, sha256=SHA, bytes=7_667_000,
        metadata_sha256=SHA, added="2026-11-16T00:00:00Z", report=report, proofs=proofs, yanked=yanked,
    )  # fmt: skip
    path = place.record(name.project, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode(entry))


def pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and HTML of each."""
    yield "journey", render_journey_html(journey())
    yield "journey-failed", render_journey_html(journey(arrived=False))
    yield "inspect", wheel_page(wheel())
    yield "verify", verify_page(proof())
    yield "build", build(folder)
    yield "matrix", render_matrix_html(matrix())
