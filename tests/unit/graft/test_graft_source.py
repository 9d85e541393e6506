"""The source way: which file a container comes from, what it is compiled with, and what is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from binaries import make_entry
from gpu_libraries import make_cubin, make_gpu_library, write_library
from rekindle import api
from rekindle.compat.graft import find_recipe
from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.formats.cubin import other_arch
from rekindle.formats.wheel import check_wheel
from rekindle.graft.compile import CACHED, has_header, take_headers, take_include, wrap_nvcc
from rekindle.graft.engine import Tools
from rekindle.graft.library import GpuLibrary
from rekindle.graft.nvidia import (
    FlagSearch,
    Sources,
    SourceWay,
    compare_code,
    find_packages,
    kernel_files,
)
from rekindle.graft.order import why_no_sources
from rekindle.graft.pack import read_graft, write_graft
from rekindle.graft.wheel import wheel_cuda
from rekindle.model.arch import GpuArch, Sm
from rekindle.model.graft import GraftReport, HeaderPackage, Making, RecipePart, UnitProof
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

SM_80, SM_90, SM_120 = Sm(8, 0), Sm(9, 0), Sm(12, 0)
RECIPE = next(recipe for recipe in load_facts().graft.recipe if recipe == find_recipe("2.12.1+cu130", load_facts()))


def _tree(folder: Path) -> Path:
    for name, text in {
        "aten/src/ATen/native/cuda/Fill-Kernel.cu": "__global__ void fill(int* p) {}",
        "aten/src/ATen/native/cuda/SoftMax.cu": "template <int N> __global__ void __launch_bounds__(64) soft(int*) {}",
        "aten/src/ATen/native/sparse/cuda/SoftMax.cu": "__global__ void sparse_soft(int* p) {}",
        "aten/src/ATen/test/Fill-Kernel.cu": "",
        "third_party/mslk/GroupMM.cu": "",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _sources(folder: Path, **more: object) -> Sources:
    made = Sources(tree=_tree(folder / "tree"), include=folder / "include", recipe=RECIPE, nvcc=folder / "nvcc")
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def _way(card: Sm, sources: Sources, **more: Any) -> SourceWay:
    gather = lambda: sources  # noqa: E731
    facts = load_facts()
    return SourceWay(card=card, arch=card, facts=facts, recipe=sources.recipe, gather=gather, toolkit="13.0", **more)


def _library(folder: Path, *cubins: bytes) -> GpuLibrary:
    data = make_gpu_library([[make_entry(2, 80, payload=cubin)] for cubin in cubins])
    return GpuLibrary(write_library(folder / "lib.so", data), "torch/lib/libtorch_cuda.so")


FILL = "91c5f4d9_14_Fill_Kernel_cu_54a8c5b0_77"
SOFT = "91c5f4d9_10_SoftMax_cu_54a8c5b0"


def test_a_unit_is_found_by_its_module_id(tmp_path: Path) -> None:
    with _library(tmp_path, make_cubin(80, unit=FILL)) as library:
        units, others = _way(SM_120, _sources(tmp_path)).survey(library)
    assert [(unit.file.name, str(unit.arch), unit.module.text) for unit in units] == [
        ("Fill-Kernel.cu", "sm_120", f"_{FILL}")
    ]
    assert others == []


def test_files_of_tests_are_no_kernel_files(tmp_path: Path) -> None:
    assert [path.parent.name for path in kernel_files(_sources(tmp_path))["Fill_Kernel_cu"]] == ["cuda"]


@pytest.mark.parametrize(("kernel", "folder"), [("_Z4softPi", "native/cuda"), ("_Z11sparse_softPi", "sparse/cuda")])
def test_two_files_of_one_name_are_told_apart_by_their_kernels(tmp_path: Path, kernel: str, folder: str) -> None:
    with _library(tmp_path, make_cubin(80, {kernel: (8,)}, unit=SOFT)) as library:
        units, _ = _way(SM_120, _sources(tmp_path)).survey(library)
    assert [unit.file.parent.as_posix().endswith(folder) for unit in units] == [True]


def test_two_files_that_cannot_be_told_apart_are_left_out(tmp_path: Path) -> None:
    with _library(tmp_path, make_cubin(80, {"_Z5otherPi": (8,)}, unit=SOFT)) as library:
        units, others = _way(SM_120, _sources(tmp_path)).survey(library)
    assert not units and others[0].state == "left-out" and "several files" in (others[0].why or "")


def test_what_has_no_file_or_no_name_is_left_out_with_the_reason(tmp_path: Path) -> None:
    cubins = (make_cubin(80, unit="91c5f4d9_8_Flash_cu_54a8c5b0"), make_cubin(80))
    with _library(tmp_path, *cubins) as library:
        units, others = _way(SM_120, _sources(tmp_path)).survey(library)
    assert not units
    assert [other.state for other in others] == ["left-out", "left-out"]
    assert "has no Flash.cu" in (others[0].why or "") and "no name" in (others[1].why or "")


def test_a_card_that_is_served_needs_nothing(tmp_path: Path) -> None:
    with _library(tmp_path, make_cubin(80, unit=FILL)) as library:
        units, others = _way(Sm(8, 6), _sources(tmp_path)).survey(library)
    assert not units and others[0].state == "has"


def test_units_with_a_variant_of_their_own_get_both(tmp_path: Path) -> None:
    with _library(tmp_path, make_cubin(80, unit="91c5f4d9_10_GroupMM_cu_54a8c5b0")) as library:
        units, _ = _way(SM_90, _sources(tmp_path)).survey(library)
    assert [str(unit.arch) for unit in units] == ["sm_90", "sm_90a"]


@pytest.mark.parametrize("space", ["THRUST_300001_SM_750_800_1200_NS", "THRUST_200302_750_800_1200_NS"])
def test_the_list_of_architectures_is_the_releases(tmp_path: Path, space: str) -> None:
    named = make_cubin(80, {f"_ZN6thrust{len(space)}{space}3fooEv": (8,)}, unit=FILL)
    with _library(tmp_path, named, make_cubin(80, unit=FILL)) as library:
        units, _ = _way(SM_120, _sources(tmp_path)).survey(library)
    assert [unit.arch_list for unit in units] == [(750, 800, 1200), (800,)]


def test_a_job_names_the_module_the_card_and_the_flags(tmp_path: Path) -> None:
    recipe = msgspec.structs.replace(RECIPE, parts=(RecipePart(folder="aten", include=("more",), defines=("PART=1",)),))
    sources = _sources(tmp_path, recipe=recipe, headers=(tmp_path / "nv",), flags=("-DFROM_WHEEL",))
    with _library(tmp_path, make_cubin(80, unit=FILL)) as library:
        units, _ = _way(SM_120, sources).survey(library)
        (job,) = _way(SM_120, sources).jobs(tmp_path / "work", 3, library, units)
    words = job.command
    assert words[:3] == ("env", f"REKINDLE_MODULE_ID=_{FILL}", str(tmp_path / "nvcc"))
    assert "arch=compute_120,code=sm_120" in words and "--cubin" in words and "-std=c++20" in words
    for flag in ("-DFROM_WHEEL", "-DPART=1", "-DUSE_CUDA", f"-I{sources.tree / 'more'}", f"-I{tmp_path / 'nv'}"):
        assert flag in words
    first = (tmp_path / "work" / "first" / "3-0.h").read_text()
    assert "#define __CUDA_ARCH_LIST__ 800" in first and FILL in first
    assert job.output == "cubin/3-0.sm_120.cubin"


def test_the_wheels_own_flags_are_read_across_pieces() -> None:
    text = b"\0-DCUB_X=at -Xfatbin -compress-all -gencode arch=compute_75,code=sm_75 --expt-relaxed-constexpr -DB;rm\0"
    for cut in (1, 20, len(text) - 20):
        search = FlagSearch()
        for piece in (b"x" * 100, text[:cut], text[cut:], b"--expt-relaxed-constexpr -DLATER\0"):
            search(piece)
        assert search.flags == ("-DCUB_X=at", "--expt-relaxed-constexpr")


def test_a_release_may_have_no_recipe() -> None:
    assert find_recipe("1.0.0", load_facts()) is None and find_packages("1.0.0", load_facts()) == ()
    assert "nvidia-cutlass" in [package.name for package in find_packages("2.12.1", load_facts())]


@pytest.mark.parametrize("release", ["2.6.0", "2.12.1"])
def test_a_graft_and_a_build_take_the_same_cutlass(release: str) -> None:
    """A graft compiled 2.12.1 with headers while a build with CUDA was still refused for want of them."""
    (package,) = [package for package in find_packages(release, load_facts()) if package.name == "nvidia-cutlass"]
    (part,) = [part for part in parts_for(release) if part.name == "cutlass"]
    assert part.index is not None and part.index.version == package.version


def test_same_code_is_counted_by_function(tmp_path: Path) -> None:
    with _library(tmp_path, make_cubin(80, unit=FILL)) as library:
        (unit,), _ = _way(SM_80, _sources(tmp_path), proving=True).survey(library)
    official = make_cubin(80, {"a": (8,), "b": (8,)})
    assert compare_code(unit, official, official).why is None
    other = compare_code(unit, make_cubin(80, {"a": (8,), "b": (8,)}, code=b"\x22" * 32), official)
    assert (other.functions, other.named, other.same) == (2, 2, 0) and "other instructions" in (other.why or "")
    assert "another name" in (compare_code(unit, make_cubin(80, {"a": (8,)}), official).why or "")


def _package(folder: Path, header: bytes = b"#define A 1\n") -> tuple[Path, HeaderPackage]:
    wheel = make_wheel(
        folder, "nvidia-demo", "1.0", files={"nvidia/demo/include/a.h": header, "nvidia/demo/lib/x.so": b"x"}
    )
    zipped = check_wheel(wheel)
    record = hashlib.sha256(zipped.read(f"{zipped.dist_info}/RECORD")).hexdigest()
    return wheel, HeaderPackage(
        name="nvidia-demo", version="1.0", torch=">=2", record=record, within=("nvidia/demo/include",), header="a.h",
        source=("test",), date="2026-11-17", how="measured",
    )  # fmt: skip


def test_only_headers_are_taken_from_a_package_and_once(tmp_path: Path) -> None:
    wheel, package = _package(tmp_path)
    (folder,) = take_headers(package, lambda: check_wheel(wheel), tmp_path / "cache")
    assert has_header((folder,), "a.h") and not list((tmp_path / "cache").rglob("x.so"))
    wheel.unlink()
    assert take_headers(package, lambda: pytest.fail("asked again"), tmp_path / "cache") == (folder,)


def test_another_package_of_that_name_is_refused(tmp_path: Path) -> None:
    _, package = _package(tmp_path)
    other, _ = _package(tmp_path / "other", b"#define A 2\n")
    with pytest.raises(BadInput, match="not the package whose headers were pinned"):
        take_headers(package, lambda: check_wheel(other), tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("a.h"))


def test_a_wheel_without_headers_is_refused(tmp_path: Path) -> None:
    wheel, _ = _package(tmp_path)
    with pytest.raises(BadInput, match="has no torch/include/"):
        take_include(check_wheel(wheel), tmp_path, Silent())


@pytest.mark.skipif(os.name == "nt", reason="a POSIX shell stands before cicc")
def test_the_wrapped_nvcc_hands_on_the_given_module_id(tmp_path: Path) -> None:
    toolkit = tmp_path / "a toolkit"
    for place in ("bin", "nvvm/bin"):
        (toolkit / place).mkdir(parents=True)
    (toolkit / "bin/nvcc.profile").write_text(
        "TOP = $(_HERE_)/..\nCICC_PATH = $(TOP)/nvvm/bin\nPATH += $(CICC_PATH):\n"
    )
    (toolkit / "bin/nvcc").write_text("#!/bin/sh\n")
    (toolkit / "nvvm/bin/cicc").write_text('#!/bin/sh\necho "$@"\n')
    (toolkit / "nvvm/bin/cicc").chmod(0o755)
    ours = wrap_nvcc(toolkit / "bin/nvcc", tmp_path / "ours")
    assert ours.readlink() == toolkit / "bin/nvcc"
    profile = (tmp_path / "ours/nvcc.profile").read_text()
    assert f"CICC_PATH = {tmp_path}/ours/device" in profile and "$(_HERE_)" not in profile
    words = ["--a b", "--gen_module_id_file", "--module_id_file_name", str(tmp_path / "id"), "x.ii"]
    cicc = [str(tmp_path / "ours/device/cicc"), *words]
    said = subprocess.run(cicc, env={"REKINDLE_MODULE_ID": "_id"}, capture_output=True, text=True, check=True).stdout
    assert said == f"--a b --module_id_file_name {tmp_path / 'id'} x.ii\n" and (tmp_path / "id").read_text() == "_id"
    assert "--gen_module_id_file" in subprocess.run(cicc, env={}, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("torch", "standard", "cccl"), [("1.13.1", "c++14", "cu11"), ("2.6.0+cu124", "c++17", "cu12")])
def test_older_releases_have_recipes_and_bring_their_own_cub(torch: str, standard: str, cccl: str) -> None:
    recipe = find_recipe(torch, load_facts())
    assert recipe and recipe.standard == standard and "_GLIBCXX_USE_CXX11_ABI=0" in recipe.defines
    always = [package.name for package in find_packages(torch, load_facts()) if package.always]
    assert always == [f"nvidia-cuda-cccl-{cccl}"]


def test_behind_a_cache_nvcc_makes_a_cubin_where_an_object_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvcc.profile").write_text("")
    for name in ("nvcc", "cicc"):
        (tmp_path / "bin" / name).write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    ours = wrap_nvcc(tmp_path / "bin/nvcc", tmp_path / "our own")
    words = ["-c", "a b.cu", "-o", "x.cubin"]
    said = subprocess.run([ours.parent / CACHED, *words], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["--cubin", "a b.cu", "-o", "x.cubin"]
    before = (ours.parent / CACHED).read_bytes()
    (tmp_path / "bin/cicc").write_text("#!/bin/sh\n# another compiler\n")
    wrap_nvcc(tmp_path / "bin/nvcc", tmp_path / "our own")
    assert (ours.parent / CACHED).read_bytes() != before


def test_a_cache_and_a_host_compiler_come_before_the_flags(tmp_path: Path) -> None:
    with _library(tmp_path, make_cubin(80, unit=FILL)) as library:
        sources = _sources(tmp_path, launcher="/cache", preprocessor="/usr/bin/g++-11")
        units, _ = _way(SM_120, sources).survey(library)
        (job,) = _way(SM_120, sources).jobs(tmp_path, 0, library, units)
    assert job.command[2:6] == ("/cache", str(tmp_path / CACHED), "-ccbin", "/usr/bin/g++-11")
    assert "-c" in job.command and "--cubin" not in job.command


def test_debians_nvcc_is_a_script_and_the_real_one_is_taken(tmp_path: Path) -> None:
    real = tmp_path / "usr/lib/nvidia-cuda-toolkit/bin"
    real.mkdir(parents=True)
    for name in ("nvcc", "cicc", "nvcc.profile"):
        (real / name).write_text("")
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/nvcc").write_text("#!/bin/sh\n")
    assert wrap_nvcc(tmp_path / "usr/bin/nvcc", tmp_path / "ours").readlink() == real / "nvcc"


def test_a_toolkit_without_profile_or_device_compiler_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match=r"no nvcc\.profile"):
        wrap_nvcc(tmp_path / "nvcc", tmp_path / "ours")
    (tmp_path / "nvcc.profile").write_text("")
    with pytest.raises(MissingTool, match="has no cicc"):
        wrap_nvcc(tmp_path / "nvcc", tmp_path / "ours")


def test_code_for_one_chip_alone_need_not_be_marked() -> None:
    image = make_cubin(90)
    assert other_arch(image, SM_90) is None and other_arch(image, Sm(9, 0, "a")) is None
    assert "it is for sm_90, not sm_100" in (other_arch(image, Sm(10, 0)) or "")


def test_a_proof_with_other_names_or_a_failure_stops_the_graft() -> None:
    def report(**more: Any) -> GraftReport:
        row = UnitProof(unit="Fill_cu", arch="sm_80", **more)
        return GraftReport(wheel="", wheel_sha256="", bytes_before=0, card="", arch="", proof=(row,))

    assert report(why="it failed").disproven
    assert report(functions=2, named=1, same=1, why="1 of 2").disproven
    assert not report(functions=2, named=2, same=1, why="1 of 2 compiled to other instructions").disproven
    assert not report().disproven and not report(functions=2, named=2, same=2).disproven


def _no_sources() -> Sources:
    raise AssertionError("nobody fetches a tree for this")


def test_a_dry_run_names_units_without_a_tree(tmp_path: Path) -> None:
    way = SourceWay(
        card=SM_90, arch=SM_90, facts=load_facts(), recipe=RECIPE, gather=_no_sources, toolkit="13.0", unseen=True
    )
    cubins = (make_cubin(80, unit=FILL), make_cubin(80, unit="91c5f4d9_10_GroupMM_cu_54a8c5b0"), make_cubin(80))
    with _library(tmp_path, *cubins) as library:
        units, others = way.survey(library)
    assert [(unit.name, str(unit.arch), unit.plan) for unit in units] == [
        ("Fill_Kernel_cu", "sm_90", "Fill_Kernel.cu"),
        ("GroupMM_cu", "sm_90", "GroupMM.cu"),
        ("GroupMM_cu", "sm_90a", "GroupMM.cu"),
    ]
    assert [other.state for other in others] == ["left-out"]


def test_what_was_measured_to_take_longest_is_started_first(tmp_path: Path) -> None:
    names = ("Sleep", "Sort", "Indexing", "GroupMM")
    cubins = [make_cubin(80, unit=f"91c5f4d9_{len(name) + 3}_{name}_cu_54a8c5b0") for name in names]
    for name in names:
        (tmp_path / "tree/aten/src" / f"{name}.cu").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree/aten/src" / f"{name}.cu").write_text("")
    sources = Sources(tree=tmp_path / "tree", include=tmp_path, recipe=RECIPE, nvcc=tmp_path / "nvcc")
    way = SourceWay(card=SM_90, arch=SM_90, facts=load_facts(), recipe=RECIPE, gather=lambda: sources, toolkit="13.0")
    with _library(tmp_path, *cubins) as library:
        units, _ = way.survey(library)
        jobs = way.jobs(tmp_path / "jobs", 0, library, units)
    assert [job.output.split("/")[1] for job in jobs] == [
        "0-2.sm_90.cubin", "0-1.sm_90.cubin", "0-3.sm_90a.cubin", "0-0.sm_90.cubin", "0-3.sm_90.cubin"
    ]  # fmt: skip


def test_a_toolkit_of_another_major_version_is_refused_in_one_line() -> None:
    facts = load_facts()
    older = Tools(release="12.8", ptxas="ptxas", nvcc="nvcc")
    wheel = "torch-2.12.1-cp312-cp312-linux_x86_64.whl"
    with pytest.raises(BadInput, match=r"CUDA 12\.8 cannot compile for a wheel of CUDA 13\.0") as refused:
        why_no_sources(wheel, RECIPE, "13.0", older, facts)
    assert "\n" not in refused.value.message and "--toolkit" in (refused.value.remedy or "")
    assert why_no_sources(wheel, RECIPE, "12.6", older, facts) == ()
    assert "no recipe" in why_no_sources(wheel, None, "13.0", older, facts)[0]
    assert "no nvcc" in why_no_sources(wheel, RECIPE, "13.0", dataclasses.replace(older, nvcc=None), facts)[0]
    assert why_no_sources("xformers-0.0.35-py39-none-any.whl", None, None, older, facts) == ()
    assert "MSVC" in why_no_sources("torch-2.12.1-cp312-cp312-win_amd64.whl", RECIPE, "13.0", older, facts)[0]


def test_a_companion_says_its_cuda_in_its_version(tmp_path: Path) -> None:
    files = {"torchvision/version.py": b"__version__ = '0.27.1+cu130'\ngit_version = 'x'\n"}
    wheel = check_wheel(make_wheel(tmp_path, "torchvision", "0.27.1", tag="py3-none-any", files=files))
    assert wheel_cuda(wheel, "torchvision") == "13.0" and wheel_cuda(wheel) is None


def test_a_companions_kernel_files_lie_where_its_recipe_says(tmp_path: Path) -> None:
    for name in ("torchvision/csrc/ops/nms_kernel.cu", "aten/src/x.cu", "torchvision/csrc/test/t.cu"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    sources = dataclasses.replace(_sources(tmp_path / "other"), tree=tmp_path)
    own = msgspec.structs.replace(RECIPE, folders=("torchvision/csrc",))
    assert list(kernel_files(dataclasses.replace(sources, recipe=own))) == ["nms_kernel_cu"]
    assert list(kernel_files(sources)) == ["x_cu"]


def test_windows_libraries_get_entries_of_windows(tmp_path: Path) -> None:
    """What names the host's system is taken from the library's own entries."""
    wheel = make_wheel(tmp_path, "pkg", "1.0", tag="py3-none-any", files={"pkg/a.dll": b"x", "pkg/b.so": b"y"})
    code: dict[tuple[str, int], dict[GpuArch, bytes]]
    code = {("pkg/a.dll", 0): {SM_90: make_cubin(90)}, ("pkg/b.so", 0): {SM_90: make_cubin(90)}}
    made = Making(way="ptx", archs=("sm_90",))
    write_graft(tmp_path / "g", wheel, "0" * 64, code, made, version="1.0+sm90", hosts={"pkg/a.dll": 0x21})
    _, members = read_graft(tmp_path / "g")
    flags = {name: int.from_bytes(entry[40:48], "little") & 0x70 for name, entry in members.items()}
    assert flags == {"code/0-0-sm_90": 0x20, "code/1-0-sm_90": 0x10}


def test_an_inferred_recipe_is_used_after_a_proof_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"torch/version.py": b"cuda = '12.8'\n", "torch/lib/libtorch_cuda.so": make_gpu_library([])}
    wheel = make_wheel(tmp_path, "torch", "2.9.1", tag="cp312-cp312-linux_x86_64", files=files)
    kit = Tools(release="12.8", ptxas="ptxas", nvcc="nvcc")
    monkeypatch.setattr(importlib.import_module("rekindle.graft.order"), "find_tools", lambda *_: (kit, (SM_90,)))
    with pytest.raises(BadInput, match="inferred from its neighbours") as refused:
        api.graft(str(wheel), gpu="sm_90", workspace=tmp_path / "ws")
    assert "--prove 6" in (refused.value.remedy or "")
    assert api.graft(str(wheel), gpu="sm_90", workspace=tmp_path / "ws", dry_run=True).count("refused") == 0


def test_whoever_enters_the_room_without_numpy_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.errors.has_package", lambda name: False)
    with pytest.raises(MissingTool, match="a graft needs the package numpy"):
        importlib.reload(importlib.import_module("rekindle.graft"))
