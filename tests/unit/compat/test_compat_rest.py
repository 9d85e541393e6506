"""cuDNN, toolkits, features, C libraries, CPUs, memory and published wheels: just inside and just outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat import BACKENDS, backend_of, flavour_backend
from rekindle.compat.answer import CompatAnswer
from rekindle.compat.backends import find_flavour, platform_of
from rekindle.compat.hazards import ever_supported, lost_features, lost_in_build
from rekindle.compat.libc import Libc, flavour_libc, libc_of, libc_runs, tag_libc, tools_libc
from rekindle.compat.resources import build_cost, jobs_for, memory_fits
from rekindle.compat.toolkit import (
    compiler_span,
    compiles_for,
    cudnn_covers,
    cudnn_floor,
    emits_for,
    find_visual_studio,
    last_cudnn,
    newest_compiler,
    takes_compiler,
    toolkits_for,
)
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, Sm, Xe, parse_sm
from rekindle.model.facts import CudaToolkit
from rekindle.model.machine import Gpu, Os
from rekindle.model.supply import BuildCost

FACTS = load_facts()


# --- cuDNN


@pytest.mark.parametrize(
    ("cudnn", "cuda", "card", "kind"),
    [
        ("8.7.0", "11.8", "sm_35", "yes"),
        ("8.8.0", "11.8", "sm_37", "partly"),
        ("8.8.0", "11.8", "sm_50", "yes"),
        ("9.1.0.70", "11.8", "sm_37", "partly"),
        ("9.10.2", "12.6", "sm_50", "yes"),
        ("1.0", "12.6", "sm_50", "unknown"),
        (None, "12.6", "sm_50", "unknown"),
        ("8.7.0", None, "sm_35", "unknown"),
    ],
)
def test_cudnn_starts_somewhere(cudnn: str | None, cuda: str | None, card: str, kind: str) -> None:
    found = cudnn_covers(cudnn, cuda, parse_sm(card), FACTS)
    assert found.kind == kind
    if kind == "partly":
        assert found.code == "cudnn-lacks-arch" and found.want == last_cudnn(parse_sm(card), FACTS) and found.source


def test_cudnn_floor_takes_the_row_below() -> None:
    exact, between = cudnn_floor("8.7.0", "11.8", FACTS), cudnn_floor("8.7.0.84", "11.8", FACTS)
    assert exact is not None and between is not None and exact.version == between.version == "8.7.0"
    assert cudnn_floor("8.7.0", "99.1", FACTS) is None
    assert last_cudnn(Sm(3, 5), FACTS) == "8.7.0"
    assert last_cudnn(Sm(5, 0), FACTS) == "9.10.2", "the last that begins exactly there"
    assert exact.source == FACTS.cudnn.cudnn["8.7.0"].source[0]
    assert last_cudnn(Sm(2, 0), FACTS) is None
    assert cudnn_covers("8.7.0", "11.8", Gfx("gfx906"), FACTS).kind == "unknown"
    assert cudnn_covers("8.7.0", "11.8", None, FACTS).kind == "unknown"


# --- toolkits


@pytest.mark.parametrize(
    ("cuda", "card", "kind", "want"),
    [
        ("12.8", "sm_120", "yes", None),
        ("12.6", "sm_120", "no", "12.8"),
        ("11.8", "sm_35", "yes", None),
        ("12.0", "sm_35", "no", "11.8"),
        ("13.0", "sm_61", "no", "12.9"),
        ("11.0", "sm_86", "partly", "11.1"),
        ("11.7", "sm_89", "partly", "11.8"),
        ("12.8", "sm_121", "partly", "12.9"),
        ("12.8", "sm_110", "partly", "13.0"),
        ("99.9", "sm_86", "unknown", None),
        ("12.8", "sm_150", "no", None),
    ],
)
def test_what_nvcc_compiles_for(cuda: str, card: str, kind: str, want: str | None) -> None:
    found = compiles_for(cuda, parse_sm(card), FACTS, "it")
    assert (found.kind, found.want) == (kind, want)
    assert found.text
    assert ("TORCH_CUDA_ARCH_LIST=" in found.text) is (kind == "partly")
    kit = FACTS.toolkit(cuda)
    assert found.source == (kit.source[0] if kit else None)


@pytest.mark.parametrize(
    ("cuda", "card", "code"),
    [
        ("12.8", "sm_90", "sm_90"),
        ("12.8", "sm_90a", "sm_90a"),
        ("11.7", "sm_89", "sm_86"),
        ("11.0", "sm_86", "sm_80"),
        ("11.7", "sm_90", None),
        ("13.0", "sm_61", None),
        ("12.8", "sm_103", "sm_100"),
        ("99.9", "sm_61", "sm_61"),
    ],
)
def test_what_nvcc_is_told_to_compile_for(cuda: str, card: str, code: str | None) -> None:
    assert emits_for(cuda, parse_sm(card), FACTS) == (parse_sm(code) if code else None)


@pytest.mark.parametrize(
    ("compilers", "product"),
    [
        ((0, 1, 9), (14, "2015")),
        ((10, 16, 19), (15, "2017")),
        ((20, 29), (16, "2019")),
        ((30, 44, 49), (17, "2022")),
        ((50, 59), (18, "2026")),
        ((-1, 60, 99), None),
    ],
)
def test_the_visual_studio_of_a_compiler(compilers: tuple[int, ...], product: tuple[int, str] | None) -> None:
    assert [find_visual_studio(number) for number in compilers] == [product] * len(compilers)


def test_toolkits_for_a_card_are_in_order() -> None:
    assert toolkits_for(Sm(3, 5), FACTS)[-1] == "11.8" and toolkits_for(Sm(12, 0), FACTS)[0] == "12.8"
    assert toolkits_for(Sm(9, 9), FACTS) == ()
    assert "(12.0, RTX 5070)" in compiles_for("12.6", Sm(12, 0), FACTS, "RTX 5070").text
    assert "sm_120 (12.0);" in compiles_for("12.6", Sm(12, 0), FACTS).text
    assert "no known toolkit can" in compiles_for("12.8", Sm(9, 9), FACTS).text


def row(**more: object) -> CudaToolkit:
    return CudaToolkit(source=("x",), date="2026-01-01", how="measured", sass=(Sm(8, 0),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "version", "takes"),
    [
        ("gcc", "13.3.0", True), ("gcc", "14.1.0", False), ("gcc", "14", False), ("gcc", "13", True),
        ("gcc", "6.5", True), ("gcc", "6.4.9", False), ("gcc", "6", True), ("gcc", "5", False),
        ("clang", "17.0.6", True), ("clang", "18.1", False), ("clang", "7", True), ("clang", "6.9", False),
        ("msvc", "19.39", True), ("msvc", "19.40", False), ("msvc", "19.10", True), ("msvc", "19.9", False),
    ],
)  # fmt: skip
def test_the_host_compilers_of_a_toolkit(kind: str, version: str, takes: bool) -> None:
    kit = row(gcc_min="6.5", gcc_max=13, clang_min="7", clang_max=17, msvc_from=1910, msvc_below=1940)
    assert takes_compiler(kit, kind, version) is takes


def test_a_limit_nobody_knows_is_no_answer() -> None:
    assert [takes_compiler(row(), kind, "9.1") for kind in ("gcc", "clang", "msvc")] == [None, None, None]
    assert takes_compiler(row(gcc_max=9), "gcc", "1.0") is True
    assert [takes_compiler(row(gcc_max=9), "gcc", version) for version in ("9", "9.5", "10")] == [True, True, False]
    assert takes_compiler(row(msvc_below=1940), "msvc", "1.0") is True
    assert [compiler_span(row(), kind) for kind in ("gcc", "clang", "msvc")] == ["", "", ""]
    assert compiler_span(row(gcc_max=9), "gcc") == "gcc up to 9"
    assert compiler_span(row(gcc_min="6", gcc_max=9), "gcc") == "gcc 6 to 9"
    assert compiler_span(row(clang_min="7", clang_max=9), "clang") == "clang 7 to 9"
    assert compiler_span(row(msvc_below=1940), "msvc") == "MSVC up to 19.39"
    assert compiler_span(row(msvc_below=1930, visual_studio="2019"), "msvc") == "MSVC up to 19.29 (Visual Studio 2019)"
    kit = row(gcc_max=13, clang_max=17)
    assert [newest_compiler(kit, kind) for kind in ("gcc", "clang", "msvc")] == [13, 17, None]
    assert newest_compiler(row(msvc_below=1940), "msvc") == 1939
    assert newest_compiler(row(msvc_below=1940), "icc") is None
    for version, below, takes in (
        ("19.29.30133", 1929, False),
        ("19.29", 1930, True),
        ("19", 1900, False),
        ("19", 1901, True),
    ):
        assert takes_compiler(row(msvc_below=below), "msvc", version) is takes


@pytest.mark.parametrize(
    ("card", "torch", "lost"),
    [
        ("sm_61", "1.13.1", ["no-bf16"]),
        ("sm_61", "2.0.0", ["no-triton", "no-bf16"]),
        ("sm_70", "2.0.0", ["no-bf16"]),
        ("sm_75", "2.7.1", ["no-bf16"]),
        ("sm_80", "2.7.1", []),
    ],
)
def test_what_a_card_goes_without(card: str, torch: str, lost: list[str]) -> None:
    found = lost_features(parse_sm(card), torch, FACTS, "the card")
    assert [reason.code for reason in found] == lost
    assert all("the card" in reason.text and "sm_" in reason.text and reason.source for reason in found)
    assert all(card in reason.text for reason in lost_features(parse_sm(card), torch, FACTS))


@pytest.mark.parametrize(
    ("card", "torch", "losses", "off"),
    [
        ("sm_35", "2.0.1", 3, {"USE_FLASH_ATTENTION": "0", "USE_MEM_EFF_ATTENTION": "0"}),
        ("sm_50", "2.0.1", 2, {"USE_FLASH_ATTENTION": "0"}),
        ("sm_70", "2.0.1", 1, {"USE_FLASH_ATTENTION": "0"}),
        ("sm_80", "2.0.1", 0, {}),
        ("sm_35", "1.13.1", 0, {}),
    ],
)
def test_what_a_build_leaves_out(card: str, torch: str, losses: int, off: dict[str, str]) -> None:
    found = lost_in_build(parse_sm(card), torch, FACTS)
    assert len(found) == losses and all("sm_" in text for text, _ in found)
    assert {name: value for _, env in found for name, value in env.items()} == off


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [
        (Gpu(vendor="nvidia", arch=Sm(1, 3)), "no"),
        (Gpu(vendor="nvidia", arch=Sm(2, 1)), "no"),
        (Gpu(vendor="nvidia", arch=Sm(3, 0)), "yes"),
        (Gpu(vendor="nvidia", arch=Sm(12, 0)), "yes"),
        (Gpu(vendor="amd", arch=Gfx("gfx802")), "no"),
        (Gpu(vendor="amd", arch=Gfx("gfx803")), "yes"),
        (Gpu(vendor="amd", arch=Gfx("gfx1201")), "yes"),
        (Gpu(vendor="nvidia"), "unknown"),
    ],
)
def test_cards_that_nothing_ever_ran_on(gpu: Gpu, kind: str) -> None:
    found = ever_supported(gpu, FACTS)
    assert found.kind == kind and (kind != "no" or (found.source and str(gpu.arch) in found.text))


def test_why_nothing_ever_ran_on_a_card() -> None:
    amd = ever_supported(Gpu(vendor="amd", arch=Gfx("gfx802")), FACTS)
    first = min(FACTS.rocm.span, key=lambda row: row.gfx)
    assert (amd.code, amd.source) == ("gpu-unsupported", first.source[0])
    old = FACTS.xe_generation(Xe("lp"))
    assert old is not None
    intel = ever_supported(Gpu(vendor="intel", arch=Xe("lp")), FACTS)
    assert (intel.kind, intel.code, intel.source) == ("no", "gpu-unsupported", old.source[0])
    assert intel.text.startswith(f"no torch drives {old.title}: ")
    nobodys = ever_supported(Gpu(vendor="intel", arch=Xe("nobodys")), FACTS)
    assert (nobodys.kind, nobodys.source) == ("no", None) and "drives xe_nobodys: " in nobodys.text
    assert ever_supported(Gpu(vendor="intel", arch=Xe("pvc")), FACTS).kind == "yes"
    assert ever_supported(Gpu(vendor="intel", arch=Xe("dg2")), FACTS).kind == "yes"


# --- C libraries


@pytest.mark.parametrize(
    ("os", "libc"),
    [
        (Os(system="linux", glibc="2.31"), Libc("glibc", "2.31")),
        (Os(system="linux", glibc="2.31", distro="alpine 3.20"), Libc("glibc", "2.31")),
        (Os(system="linux", libc="musl"), Libc("musl")),
        (Os(system="linux", libc="musl", distro="debian 12"), Libc("musl")),
        (Os(system="linux", distro="Alpine Linux v3.20"), Libc("musl")),
        (Os(system="linux", distro="alpine"), Libc("musl")),
        (Os(system="linux", distro="ubuntu 22.04"), Libc("glibc", "2.35")),
        (Os(system="linux", distro="arch"), Libc(None)),
        (Os(system="linux", libc="glibc"), Libc("glibc")),
        (Os(system="linux"), Libc(None)),
        (Os(system="windows"), None),
        (Os(system="macos"), None),
    ],
)
def test_the_c_library_of_a_system(os: Os, libc: Libc | None) -> None:
    assert libc_of(os, FACTS) == libc


@pytest.mark.parametrize(
    ("tags", "libc"),
    [
        (["cp311-cp311-manylinux_2_28_x86_64"], Libc("glibc", "2.28")),
        (["manylinux_2_17_x86_64.manylinux2014_x86_64"], Libc("glibc", "2.17")),
        (["manylinux_2_28_x86_64", "manylinux_2_17_x86_64"], Libc("glibc", "2.17")),
        (["manylinux_2_17_x86_64", "manylinux_2_28_x86_64"], Libc("glibc", "2.17")),
        (["cp311-cp311-manylinux1_x86_64"], Libc("glibc", "2.5")),
        (["manylinux2010_x86_64"], Libc("glibc", "2.12")),
        (["cp311-cp311-musllinux_1_2_x86_64"], Libc("musl", "1.2")),
        (["musllinux_1_2_x86_64", "manylinux_2_28_x86_64", "musllinux_1_1_x86_64"], Libc("musl", "1.1")),
        (["manylinux_2_28_x86_64.musllinux_1_2_x86_64"], Libc("glibc", "2.28")),
        (["manylinux_2_9_x86_64", "manylinux_2_28_x86_64"], Libc("glibc", "2.9")),
        (["manylinux_2_17_x86_64-cp311-linux_x86_64"], None),
        (["cp311-cp311-linux_x86_64"], None),
        (["win_amd64"], None),
        ([], None),
    ],
)
def test_what_a_tag_promises(tags: list[str], libc: Libc | None) -> None:
    assert tag_libc(tags, FACTS) == libc


@pytest.mark.parametrize(
    ("need", "have", "kind", "code"),
    [
        (Libc("glibc", "2.28"), Libc("glibc", "2.27"), "no", "glibc-too-old"),
        (Libc("glibc", "2.28"), Libc("glibc", "2.28"), "yes", "glibc"),
        (Libc("glibc", "2.28"), Libc("glibc", "2.100"), "yes", "glibc"),
        (Libc("glibc", "2.28"), Libc("musl"), "no", "libc-musl"),
        (Libc("glibc"), Libc("musl"), "no", "libc-musl"),
        (Libc("musl", "1.2"), Libc("glibc", "2.39"), "no", "libc-glibc"),
        (Libc("musl", "1.2"), Libc("musl", "1.1"), "no", "musl-too-old"),
        (Libc("musl", "1.2"), Libc("musl"), "unknown", "musl-not-told"),
        (Libc("glibc", "2.28"), Libc(None), "unknown", "glibc-not-told"),
        (Libc("glibc", "2.28"), Libc("glibc"), "unknown", "glibc-not-told"),
        (Libc("glibc"), Libc("glibc", "2.39"), "unknown", "libc-need-not-known"),
        (None, Libc("musl"), "yes", ""),
        (Libc(None), Libc("musl"), "yes", ""),
        (Libc("glibc", "2.28"), None, "yes", ""),
    ],
)
def test_c_libraries_inside_and_outside(need: Libc | None, have: Libc | None, kind: str, code: str) -> None:
    found = libc_runs(need, have)
    assert (found.kind, found.code) == (kind, code)
    assert kind != "no" or (found.source and found.want)
    if need and have and need.version and kind == "no":
        assert f"needs {need.kind} {need.version}" in found.text


def test_what_the_tools_of_a_build_want() -> None:
    row = FACTS.distros.manylinux["manylinux2014"]
    assert tools_libc(FACTS) == (Libc("glibc", row.glibc), row.source[0]) and row.glibc == "2.17"


def test_what_a_published_wheel_wants() -> None:
    flavour = next(row for row in FACTS.flavours("2.6.0") if row.name == "cu118")
    release = FACTS.release("2.6.0")
    assert release is not None
    assert flavour_libc(flavour, "2.6.0", "linux_x86_64", FACTS) == Libc(
        "glibc", flavour.glibc or release.glibc["linux_x86_64"]
    )
    assert flavour_libc(flavour, "2.6.0", "windows", FACTS) is None
    assert flavour_libc(flavour, "0.0.0", "linux_x86_64", FACTS) == Libc("glibc", flavour.glibc)


# --- memory and disk


COST = BuildCost(
    source=("x",), date="2026-01-01", how="measured", backend="gpu", since="0", disk_gib=30.0, memory_gib=8.0,
    job_gib=4.0, largest_gib=6.0, cpu_minutes=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("memory", "threads", "swap", "jobs"),
    [
        (None, 8, None, 8), (None, 0, None, 1), (16.0, 8, None, 4), (15.9, 8, None, 3), (16.0, 3, None, 3),
        (1.0, 8, None, 1), (14.0, 8, 4.0, 4), (14.0, 8, 3.9, 3), (64.0, 8, 0.0, 8),
    ],
)  # fmt: skip
def test_jobs_that_fit(memory: float | None, threads: int, swap: float | None, jobs: int) -> None:
    assert jobs_for(memory, threads, COST, swap) == jobs


@pytest.mark.parametrize(
    ("memory", "swap", "fits"),
    [(6.0, None, True), (5.9, None, False), (4.0, 2.0, True), (4.0, 1.9, False), (None, 9.0, None)],
)
def test_the_largest_compiler_must_fit(memory: float | None, swap: float | None, fits: bool | None) -> None:
    assert memory_fits(memory, swap, COST) is fits


def test_costs_come_from_the_tables() -> None:
    assert build_cost(None, "cuda", FACTS) == build_cost(FACTS.releases[0], "cuda", FACTS)
    assert build_cost("2.7.1", "rocm", FACTS) == build_cost("2.7.1", "cuda", FACTS)
    assert build_cost("2.7.1", "cpu", FACTS).job_gib < build_cost("2.7.1", "cuda", FACTS).job_gib
    use = FACTS.costs.use
    assert use["cpu"].disk_gib < use["cuda"].disk_gib < use["rocm"].disk_gib


# --- published wheels and platforms


@pytest.mark.parametrize(
    ("os", "platform"),
    [
        (Os(system="linux", arch="x86_64"), "linux_x86_64"),
        (Os(system="linux", arch="amd64"), "linux_x86_64"),
        (Os(system="linux"), "linux_x86_64"),
        (Os(system="linux", arch="aarch64"), "linux_aarch64"),
        (Os(system="linux", arch="arm64"), "linux_aarch64"),
        (Os(system="windows", arch="x86_64"), "windows"),
        (Os(system="windows", arch="aarch64"), "windows_arm64"),
        (Os(system="macos", arch="arm64"), "macos_arm64"),
        (Os(system="macos", arch="x86_64"), "macos_x86_64"),
        (Os(system="linux", arch="i686"), None),
    ],
)
def test_platforms(os: Os, platform: str | None) -> None:
    assert platform_of(os) == platform


@pytest.mark.parametrize(
    ("version", "made", "name"),
    [
        ("2.7.1+cu126", {}, "cu126"),
        ("2.7.1+cu126", {"cuda": "12.8"}, "cu126"),
        ("2.7.1", {"cuda": "12.6"}, "cu126"),
        ("2.7.1", {"cuda": "12.6.77"}, "cu126"),
        ("2.7.1", {"rocm": "6.3"}, "rocm6.3"),
        ("2.7.1+cpu", {}, "cpu"),
        ("2.7.1", {}, None),
        ("2.7.1", {"cuda": "10.0"}, None),
        ("2.7.1+cu999", {"cuda": "12.6"}, None),
        ("2.7.1a0+gitabc", {"cuda": "12.6"}, None),
        (None, {"cuda": "12.6"}, None),
    ],
)
def test_which_published_wheel_a_version_names(version: str | None, made: dict[str, str], name: str | None) -> None:
    found = find_flavour(version, FACTS, **made)
    assert (found.name if found else None) == name


# --- backends and answers


def test_backends_spell_their_lists() -> None:
    cards = (Gpu(vendor="nvidia", arch=Sm(8, 6), possible=(Sm(3, 5),)), Gpu(vendor="amd", arch=Gfx("gfx906")))
    assert BACKENDS["cuda"].arch_list(cards) == ("3.5", "8.6")
    assert BACKENDS["rocm"].arch_list(cards) == ("gfx906",)
    assert BACKENDS["cpu"].arch_list(cards) == ()
    cuda = {"USE_CUDA": "1", "USE_ROCM": "0"}
    assert BACKENDS["cuda"].build_environment(("8.6",)) == {**cuda, "TORCH_CUDA_ARCH_LIST": "8.6"}
    assert BACKENDS["cuda"].build_environment(("3.5", "8.6"))["TORCH_CUDA_ARCH_LIST"] == "3.5;8.6"
    assert BACKENDS["cuda"].build_environment(()) == cuda
    rocm = {"USE_ROCM": "1", "USE_CUDA": "0"}
    assert BACKENDS["rocm"].build_environment(("gfx906", "gfx90a")) == {**rocm, "PYTORCH_ROCM_ARCH": "gfx906;gfx90a"}
    assert BACKENDS["rocm"].build_environment(()) == rocm
    assert BACKENDS["cpu"].build_environment(()) == {"USE_CUDA": "0", "USE_ROCM": "0"}
    assert BACKENDS["cuda"].asserts == {"USE_CUDA": "ON", "USE_CUDNN": "ON"}
    assert BACKENDS["rocm"].asserts == {"USE_ROCM": "ON"}
    assert BACKENDS["cpu"].asserts == {"USE_CUDA": "OFF"}


def test_a_backend_for_every_wheel() -> None:
    for version in ("1.13.1", "2.7.1"):
        for flavour in FACTS.flavours(version):
            name = flavour_backend(flavour)
            assert name == (flavour.name if flavour.name in ("cpu", "xpu") else "rocm" if flavour.rocm else "cuda")
            assert BACKENDS[name].platforms(flavour)
    cpu = next(row for row in FACTS.flavours("2.7.1") if row.name == "cpu")
    assert BACKENDS["cpu"].covers(cpu, "windows", Gpu(vendor="nvidia", arch=Sm(8, 6)), FACTS).kind == "none"
    assert backend_of("intel") == "xpu" and backend_of("nvidia") == "cuda" and backend_of("amd") == "rocm"


def test_an_answer_without_a_reason_has_empty_words() -> None:
    assert (CompatAnswer("yes").code, CompatAnswer("yes").text, CompatAnswer("yes").source) == ("", "", None)
    full = CompatAnswer("no", "c", "t", "s", "w")
    assert (full.code, full.text, full.source, full.want) == ("c", "t", "s", "w")


@given(st.floats(0.1, 512), st.floats(0.1, 512), st.integers(1, 256))
def test_more_memory_never_means_fewer_jobs(one: float, other: float, threads: int) -> None:
    less, more = sorted((one, other))
    assert 1 <= jobs_for(less, threads, COST) <= jobs_for(more, threads, COST) <= threads
