"""The GPU and driver axes, answer by answer: the words, the code and the next step of each."""

from __future__ import annotations

import pytest

from rekindle.facts import load_facts
from rekindle.inspect.verdict_gpu import code_of, driver_verdicts, gpu_verdicts
from rekindle.model.arch import parse_gfx, parse_gpu_arch
from rekindle.model.machine import Drivers, Gpu, Machine, Os
from rekindle.model.wheel import ArchSet, AxisVerdict, DataFiles, Kernels, LibraryGpu, WheelGpu, WheelReport

LINUX = Os(system="linux", arch="x86_64")


def card(arch: str | None, **more: object) -> Gpu:
    amd = arch is not None and arch.startswith("gfx")
    parsed = None if arch is None else parse_gfx(arch) if amd else parse_gpu_arch(arch)
    return Gpu(**{"vendor": "amd" if amd else "nvidia", "arch": parsed, **more})  # type: ignore[arg-type]


def machine(*gpus: Gpu, driver: str | None = None, os: Os = LINUX) -> Machine:
    return Machine(os=os, gpus=gpus, drivers=Drivers(nvidia=driver))


def sets(*rows: tuple[str, str | None, int], kernels: tuple[str, ...] = ()) -> tuple[ArchSet, ...]:
    return tuple(
        ArchSet(archs=tuple(archs.split()), count=count, origin=origin, kernels=kernels)  # type: ignore[arg-type]
        for archs, origin, count in rows
    )


def wheel(*rows: tuple[str, str | None, int], **more: object) -> WheelReport:
    library = LibraryGpu(file="a/lib/libtorch_cuda.so", sets=sets(*rows))
    return WheelReport(gpu=WheelGpu(libraries=(library,)), **more)  # type: ignore[arg-type]


def declared(*archs: str, **more: object) -> WheelReport:
    return WheelReport(gpu=WheelGpu(declared=archs), **more)  # type: ignore[arg-type]


def only(report: WheelReport, *gpus: Gpu) -> AxisVerdict:
    (found,) = gpu_verdicts(report, machine(*gpus))
    assert found.axis == "gpu"
    return found


def test_no_card_no_answer() -> None:
    assert gpu_verdicts(wheel(("sm_80", "own", 1)), machine()) == []


def test_a_wheel_without_gpu_code() -> None:
    gpu = card("sm_80")
    for toolkit in ({"cuda": "12.8"}, {"rocm": "6.4"}):
        found = only(WheelReport(quick=True, **toolkit), gpu)  # type: ignore[arg-type]
        assert (found.runs, found.code, found.remedy) == ("unknown", "gpu-not-read", "leave out --quick")
        assert only(WheelReport(**toolkit), gpu).code == "cpu-only"  # type: ignore[arg-type]
    assert only(WheelReport(quick=True), gpu).code == "cpu-only"
    torch = only(WheelReport(name="torch"), gpu)
    assert (torch.runs, torch.remedy) == ("partly", "take a CUDA, ROCm or XPU wheel: rekindle plan")
    other = only(WheelReport(name="odd"), gpu)
    assert (other.runs, other.code, other.remedy) == ("yes", "cpu-only", None)


def test_how_a_card_is_called() -> None:
    old = wheel(("sm_80", "own", 1))
    assert "no image for nvidia (sm_90)" in only(old, card("sm_90")).text
    assert "no image for H100 (sm_90)" in only(old, card("sm_90", name="H100")).text
    unknown = only(old, card(None, name="Mystery"))
    assert (unknown.runs, unknown.code) == ("unknown", "gpu-arch-not-told")
    assert unknown.text == "the architecture of Mystery is not known"


def test_every_card_has_its_own_answer() -> None:
    found = gpu_verdicts(wheel(("sm_80", "own", 1)), machine(card(None), card("sm_90"), card("sm_86")))
    assert [one.runs for one in found] == ["unknown", "no", "yes"]
    sycl = WheelReport(name="odd", gpu=WheelGpu(libraries=(LibraryGpu(file="a.so", sycl={"spir64": 1}),)))
    two = gpu_verdicts(sycl, machine(card("sm_90", name="H100"), card(None, vendor="intel", name="Arc")))
    assert [(one.runs, one.code) for one in two] == [("partly", "gpu-sycl"), ("unknown", "gpu-sycl")]
    assert two[0].text.endswith("it leaves H100 (sm_90) unused")
    assert two[1].text.endswith("whether for Arc is not told")


def test_code_for_intels_gpus() -> None:
    def verdict(
        arch: str, sycl: dict[str, int], *ahead: str, name: str = "odd", version: str | None = None
    ) -> tuple[str, str]:
        nvidia = LibraryGpu(file="b_cuda130.so", sets=sets(("sm_90", "own", 1)))
        gpu = WheelGpu(libraries=(LibraryGpu(file="a.so", sycl=sycl, ahead=ahead), nvidia))
        found = only(WheelReport(name=name, version=version, gpu=gpu), card(arch, vendor="intel", name="Arc"))
        return found.runs, found.code

    both = {"spir64": 1, "spir64_gen": 1}
    assert verdict("xe_dg2", both, "pvc", "ats-m150") == ("yes", "gpu-native")
    assert verdict("xe_bmg", both, "pvc", "ats-m150") == ("yes", "gpu-spirv")
    assert verdict("xe_bmg", {"spir64_gen": 1}, "pvc") == ("no", "gpu-no-kernels")
    assert verdict("xe_gen9", both, "pvc") == ("unknown", "gpu-sycl")
    assert verdict("xe_bmg", {}) == ("no", "gpu-vendor")
    # Of torch's own wheels the table says more than the compiler's options do.
    assert verdict("xe_bmg", both, name="torch", version="2.13.0+xpu") == ("yes", "gpu-native")
    assert verdict("xe_bmg", both, name="torch", version="2.5.1+xpu") == ("no", "gpu-no-code")


def test_a_card_of_another_maker_beside_a_served_one_is_left_unused() -> None:
    two = gpu_verdicts(wheel(("sm_80", "own", 1)), machine(card("sm_80"), card("gfx1036", name="iGPU")))
    assert [(one.runs, one.code) for one in two] == [("yes", "gpu-native"), ("partly", "gpu-vendor")]
    laptop = gpu_verdicts(wheel(("sm_80", "own", 1)), machine(card("xe_lp", vendor="intel"), card("sm_80")))
    assert [one.runs for one in laptop] == ["partly", "yes"]
    none = gpu_verdicts(wheel(("sm_80", "own", 1)), machine(card("sm_90"), card("gfx1036")))
    assert [one.runs for one in none] == ["no", "no"]


def test_code_of_the_other_maker() -> None:
    amd = only(wheel(("sm_80", "own", 1)), card("gfx1100", name="7900"))
    assert (amd.runs, amd.code, amd.remedy) == ("no", "gpu-vendor", "take a ROCm wheel")
    assert amd.text == "the wheel has NVIDIA code only; 7900 (gfx1100) is AMD"
    nvidia = only(wheel(("gfx1100", "own", 1)), card("sm_80", name="A100"))
    assert (nvidia.text, nvidia.remedy) == ("the wheel has AMD code only; A100 (sm_80) is NVIDIA", "take a CUDA wheel")
    assert only(wheel(("gfx1100", "own", 1), name="odd"), card("sm_80")).remedy is None
    # Code of both makers: each card is held against its own.
    both = wheel(("sm_80", "own", 3), ("gfx1100", "own", 4))
    assert only(both, card("sm_80")).code == "gpu-native"
    assert only(both, card("gfx1100")).code == "gpu-native"
    assert only(wheel(("lto_80", "own", 1)), card("sm_80")).code != "gpu-vendor"
    assert only(wheel(("compute_80", "own", 1)), card("sm_80")).code == "gpu-jit"


def test_no_kernels_at_all() -> None:
    rows = sets(("sm_80 sm_90", "own", 2), ("sm_75", "static", 1), ("sm_70", "static", 1), ("sm_75", "specialised", 1))
    library = LibraryGpu(file="a/lib/libtorch_cuda.so", sets=rows)
    told = WheelReport(gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_80",), gfx=("gfx906",)), libraries=(library,)))
    near = only(told, card("sm_75", name="T4"))
    assert (near.runs, near.code, near.remedy) == ("no", "gpu-no-kernels", "rekindle plan --gpu sm_75")
    static = " (only static libraries inside have it: libtorch_cuda.so)"
    assert near.text == f"the kernels are for sm_80: no image for T4 (sm_75){static}"
    untold = only(WheelReport(gpu=WheelGpu(libraries=(library,))), card("sm_61"))
    assert untold.text == "the kernels are for sm_80 sm_90: no image for nvidia (sm_61)"
    amd = WheelReport(
        gpu=WheelGpu(
            torch_kernels=Kernels(sass=("sm_80",), gfx=("gfx906",)),
            libraries=(LibraryGpu(file="b.so", sets=sets(("gfx906", "own", 1))),),
        )
    )
    assert "the kernels are for gfx906:" in only(amd, card("gfx1100")).text
    # Kernels for one family of cards by themselves are not asked for.
    assert only(wheel(("sm_80", "own", 2), ("sm_90a", "specialised", 3)), card("sm_80")).runs == "yes"
    assert only(wheel(("sm_80", None, 2)), card("sm_90")).runs == "no"
    assert only(wheel(("sm_80", "other", 2)), card("sm_90")).runs == "no"


def test_some_kernels() -> None:
    rows = (*sets(("sm_80", "own", 2)), *sets(("sm_90", "own", 3), kernels=("flash", "gemm")))
    report = WheelReport(gpu=WheelGpu(libraries=(LibraryGpu(file="a/l.so", sets=rows),)))
    found = only(report, card("sm_80"))
    assert (found.runs, found.code, found.remedy) == ("partly", "gpu-some-kernels", "rekindle plan --gpu sm_80")
    assert found.text == "3 of 5 containers have no image for nvidia (sm_80): l.so: 3 for sm_90 only (flash, gemm)"
    plain = only(report, card("sm_90"))
    assert plain.text.endswith("2 of 5 containers have no image for nvidia (sm_90): l.so: 2 for sm_80 only")
    other = only(wheel(("sm_80", "own", 2), ("sm_90", "own", 3), ("gfx906", "own", 9)), card("sm_80"))
    assert other.text.startswith("3 of 5 containers")


def data(library: str, *gfx: str) -> WheelReport:
    own = LibraryGpu(file="a.so", sets=sets(("gfx1100 gfx906", "own", 1)))
    return WheelReport(gpu=WheelGpu(libraries=(own,), data_files=(DataFiles(library=library, gfx=gfx, files=1),)))


def test_the_kernel_files_of_math_libraries() -> None:
    gpu = card("gfx1100", name="7900")
    none = only(data("rocBLAS", "gfx906", "gfx90a"), gpu)
    assert (none.runs, none.code, none.remedy) == ("no", "gpu-math-library", "rekindle plan --gpu gfx1100")
    assert none.text == "rocBLAS has no kernel files for 7900 (gfx1100) (it has gfx906 gfx90a)"
    assert only(data("hipBLASLt", "gfx906"), gpu).runs == "partly"
    assert only(data("MIOpen", "gfx906"), gpu).runs == "yes"
    assert only(data("rocBLAS", "gfx1100"), gpu).code == "gpu-native"


def test_what_a_build_declares() -> None:
    gpu = card("sm_80", name="A100")
    native = only(declared("sm_80", "sm_90"), gpu)
    assert (native.runs, native.code) == ("yes", "gpu-declared")
    assert native.text == "declared for sm_80 sm_90, which includes A100 (sm_80); libraries were not read"
    none = only(declared("sm_90"), gpu)
    assert (none.runs, none.code, none.remedy) == ("no", "gpu-declared", "rekindle plan --gpu sm_80")
    assert none.text == "built for sm_90: nothing for A100 (sm_80)"
    vendor = only(declared("gfx906"), gpu)
    assert (vendor.runs, vendor.code) == ("no", "gpu-vendor")
    late = only(declared("sm_70", "compute_70"), gpu)
    assert (late.runs, late.code) == ("yes", "gpu-jit")
    assert late.text == "runs on A100 (sm_80) through PTX, which the driver compiles at first use"
    unknown = only(declared("amdgcnspirv"), card("gfx1100"))
    assert unknown.runs == "unknown"
    assert unknown.text.startswith("built for amdgcnspirv: it ")
    override = only(declared("gfx1030"), card("gfx1031"))
    assert (override.runs, override.code) == ("partly", "gpu-override")
    assert override.text.startswith("the wheel ")
    assert override.remedy == "set HSA_OVERRIDE_GFX_VERSION=10.3.0 before starting Python"


def test_what_it_depends_on() -> None:
    switch = only(wheel(("gfx90a:xnack+", "own", 1)), card("gfx90a"))
    assert (switch.runs, switch.code) == ("unknown", "gpu-switch")
    assert switch.text.startswith("libtorch_cuda.so ")
    assert switch.remedy is not None
    assert "HSA_XNACK" in switch.remedy
    spirv = only(wheel(("amdgcnspirv", "own", 1)), card("gfx1100"))
    assert (spirv.runs, spirv.remedy) == ("unknown", "run it there: rekindle verify")


def test_what_is_known_of_its_making() -> None:
    facts = load_facts()
    pins = ("numpy", "nvidia-cudnn-cu12==9.1.0.70; platform_system == 'Linux'")
    assert code_of(WheelReport(requires=pins, cuda="12.6"), ("sm_80",), facts).cudnn == "9.1.0.70"
    assert code_of(WheelReport(requires=("nvidia-cudnn (==8.5)",)), (), facts).cudnn == "8.5"
    assert code_of(WheelReport(requires=("numpy",)), (), facts).cudnn is None
    official = WheelReport(name="torch", version="2.7.1+cu128", cuda="12.8")
    flavour = code_of(official, (), facts)
    assert flavour.cudnn is not None
    pinned = WheelReport(name="torch", version="2.7.1+cu128", cuda="12.8", requires=pins)
    assert code_of(pinned, (), facts).cudnn == "9.1.0.70"
    other = code_of(WheelReport(name="odd", version="2.7.1+cu128", cuda="12.8"), (), facts)
    assert (other.cudnn, other.publisher) == (None, None)
    files = WheelGpu(data_files=(DataFiles(library="rocBLAS", gfx=("gfx906",), files=1),))
    assert flavour.publisher is not None
    assert code_of(WheelReport(version="2.7.1+cu128", gpu=files), (), facts).publisher is None


def test_cudnn_that_left_the_card_out() -> None:
    pins = ("nvidia-cudnn-cu12==9.11.0.98",)
    report = wheel(("sm_60 sm_90", "own", 1), cuda="12.8.61", requires=pins)
    found = gpu_verdicts(report, machine(card("sm_60", name="P100")))
    assert [one.runs for one in found] == ["yes", "partly"]
    assert found[1].code == "cudnn-lacks-arch"
    assert found[1].text.startswith("P100 (sm_60): cuDNN 9.11.0.98 has no code for sm_60")
    assert "with CUDA 12.8," in found[1].text
    assert found[1].remedy is not None
    assert found[1].remedy.startswith("a wheel with cuDNN ")
    assert found[1].remedy.endswith(" or older: rekindle plan --gpu sm_60")
    assert len(gpu_verdicts(report, machine(card("sm_90")))) == 1
    assert len(gpu_verdicts(report, machine(card("sm_52")))) == 1
    odd = wheel(("sm_60 sm_90", "own", 1), cuda="12.8.61", requires=pins, name="odd")
    assert len(gpu_verdicts(odd, machine(card("sm_60")))) == 1


def drivers(report: WheelReport, *gpus: Gpu, driver: str | None, os: Os = LINUX) -> list[AxisVerdict]:
    return driver_verdicts(report, machine(*gpus, driver=driver, os=os))


def test_the_driver() -> None:
    report = wheel(("sm_80", "own", 1), cuda="12.8.61")
    (old,) = drivers(report, card("sm_80"), driver="470.57")
    assert (old.axis, old.runs) == ("driver", "no")
    assert old.remedy is not None
    assert old.remedy.startswith("install driver ")
    (good,) = drivers(report, card("sm_80"), driver="580.65.06")
    assert (good.runs, good.remedy) == ("yes", None)
    (untold,) = drivers(report, card("sm_80"), driver=None)
    assert (untold.runs, untold.remedy) == ("unknown", None)
    assert drivers(report, driver="470.57") == []
    assert drivers(report, card("gfx1100"), driver="470.57") == []
    assert drivers(wheel(("sm_80", "own", 1)), card("sm_80"), driver="470.57") == []
    assert len(drivers(report, card("gfx1100"), card(None), driver="580.65.06")) == 1


@pytest.mark.parametrize(
    ("report", "runs"),
    [
        (wheel(("sm_80", "own", 1), cuda="12.8"), "yes"),
        (wheel(("compute_80", "own", 1), cuda="12.8"), "no"),
        (declared("sm_80", cuda="12.8"), "yes"),
        (declared("compute_80", cuda="12.8"), "no"),
        (WheelReport(cuda="12.8"), "yes"),
    ],
)
def test_ptx_needs_the_driver_of_its_toolkit(report: WheelReport, runs: str) -> None:
    """Within one major release an older driver runs machine code; it cannot compile newer PTX."""
    (found,) = drivers(report, card("sm_80"), driver="535.183.01")
    assert found.runs == runs


def test_a_board_has_its_driver_in_the_system() -> None:
    board = Os(system="linux", arch="aarch64")
    assert drivers(wheel(("sm_87", "own", 1), cuda="12.6"), card("sm_87"), driver=None, os=board) == []


def test_a_graft_is_named_where_there_is_a_recipe() -> None:
    thor = card("sm_110", name="Thor")
    torch = wheel(("sm_80 sm_90", "own", 9), name="torch", version="2.12.1+cu130", cuda="13.0")
    found = only(torch, thor)
    assert found.code == "gpu-no-kernels" and (found.remedy or "").startswith("rekindle plan --gpu sm_110; or a graft")
    assert "minutes on 8 cores: rekindle graft torch==2.12.1 --gpu sm_110" in (found.remedy or "")
    older = wheel(("sm_80", "own", 9), name="torch", version="1.0.0", cuda="13.0")
    assert only(older, thor).remedy == "rekindle plan --gpu sm_110", "no recipe"
    # CUDA 13 does not compile for Volta, and nobody grafts a DLL yet.
    assert "graft" not in (only(torch, card("sm_70")).remedy or "")
    (on_windows,) = gpu_verdicts(torch, machine(thor, os=Os(system="windows", arch="x86_64")))
    assert "graft" not in (on_windows.remedy or "")


def test_ptx_can_be_compiled_once() -> None:
    found = only(wheel(("sm_80 compute_80", "own", 9), name="xformers", version="0.0.35"), card("sm_120"))
    assert found.code == "gpu-jit" and "rekindle graft xformers==0.0.35 --gpu sm_120" in (found.remedy or "")
