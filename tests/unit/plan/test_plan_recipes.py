"""What a build is told, line by line: cuDNN, pins, kernels, losses, jobs and costs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from planning import FACTS, ask, build, plan, recipe_of, wheel, with_machine

from rekindle.model.machine import Toolkit
from rekindle.model.plan import BuildRecipe
from rekindle.plan.candidates import (
    Candidate,
)
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import BuildInputs, Question
from rekindle.plan.recipe import _join_flags, planned_cudnn
from rekindle.plan.supply import plan_blas


@pytest.mark.parametrize(
    ("candidate", "question", "version"),
    [
        (build("2.0.1", cuda="11.8"), ask("sm_86"), "8.7.0"),
        (build("2.3.1", cuda="12.1"), ask("sm_50"), "8.9.2"),
        (build("2.8.0", cuda="12.8"), ask("sm_120"), "9.10.2"),
        (build("2.3.1", cuda="11.8"), ask("sm_37"), "8.7.0"),
        (build("1.10.2", cuda="10.2"), ask("sm_30"), "7.6.5"),
        (build("2.0.1", cuda="11.8"), ask("sm_86", cudnn="8.9.2"), "8.9.2"),
        (build("2.0.1", cuda="11.8"), ask("sm_35", cudnn="8.9.2"), "8.7.0"),  # the asked one has no Kepler
        (build("2.0.1", cuda="11.8"), ask("sm_86", cudnn="9.1"), "8.7.0"),  # the sources do not know cuDNN 9
        (build("2.0.1"), ask("none"), None),
        (wheel("2.7.1", "cu126"), ask("sm_86"), "9.5.1.17"),
        (build("2.1.2", cuda="11.4"), ask("Jetson Xavier NX"), "8.6.0"),
        (build("2.1.2", cuda="11.8"), ask("Jetson Xavier NX"), "8.7.0"),
    ],
)
def test_which_cudnn(candidate: Candidate, question: Question, version: str | None) -> None:
    assert planned_cudnn(candidate, question) == version


def made(candidate: Candidate, question: Question) -> BuildRecipe:
    return recipe_of(candidate, question)


def test_an_old_cpu_and_card() -> None:
    recipe = made(build("2.6.0", cuda="12.4", compiler="gcc-11"), ask("sm_61", cpu="ivybridge"))
    assert recipe.env == {
        "USE_CUDA": "1", "USE_ROCM": "0", "TORCH_CUDA_ARCH_LIST": "6.1", "BUILD_TEST": "0", "USE_NINJA": "1",
        "PYTORCH_BUILD_VERSION": "2.6.0+cu124", "PYTORCH_BUILD_NUMBER": "1", "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
        "CC": "gcc-11", "CXX": "g++-11", "CUDAHOSTCXX": "g++-11", "CFLAGS": "-march=ivybridge",
        "CXXFLAGS": "-march=ivybridge", "USE_FLASH_ATTENTION": "0", "USE_FBGEMM": "0", "BLAS": "MKL",
    }  # fmt: skip
    assert set(recipe.cmake) == {"CXX_AVX2_FOUND", "CXX_AVX512_FOUND", "C_AVX2_FOUND", "C_AVX512_FOUND"}
    assert set(recipe.cmake.values()) == {"OFF"}
    assert [loss.split(":")[0].split(" ")[0] for loss in recipe.losses] == [
        "flash",
        "torch.compile",
        "FBGEMM",
        "NNPACK",
    ]
    assert recipe.asserts == {
        "USE_CUDA": "ON", "USE_CUDNN": "ON", "USE_OPENMP": "ON", "CXX_AVX2_FOUND": "OFF", "CXX_AVX512_FOUND": "OFF",
        "BLAS": "MKL", "LAPACK": "MKL",
    }  # fmt: skip


def test_a_new_cpu_is_told_nothing() -> None:
    recipe = made(build("2.6.0", cuda="12.4", compiler="gcc-11"), ask("sm_86", cpu="haswell"))
    assert recipe.cmake == {} and "CFLAGS" not in recipe.env and "USE_FBGEMM" not in recipe.env
    assert recipe.losses == ()
    generic = made(build("2.6.0", compiler="gcc-11"), ask("none", cpu="x86_64_v2"))
    assert generic.cmake and "CFLAGS" not in generic.env, "a level is no microarchitecture to compile for"
    unknown = made(build("2.6.0", compiler="gcc-11"), ask("none"))
    assert unknown.cmake == {} and unknown.losses == ()


def test_windows() -> None:
    cuda = made(build("2.6.0", cuda="12.4", compiler="msvc-19.29"), ask("sm_86", os="windows", cpu="ivybridge"))
    assert cuda.env["USE_NCCL"] == "0" and cuda.losses[0].startswith("NCCL")
    assert cuda.env["DISTUTILS_USE_SDK"] == "1" and cuda.env["CMAKE_GENERATOR"] == "Ninja" and "CC" not in cuda.env
    assert "CFLAGS" not in cuda.env and "USE_OPENMP" not in cuda.asserts
    assert "toolset 14.29" in cuda.toolchain["compiler"] and "2019" in cuda.toolchain["compiler"]
    assert "git" in cuda.toolchain
    rocm = made(build("2.6.0", rocm="6.2.4"), ask("gfx1100", os="windows"))
    assert rocm.losses == ("Triton: there is none for ROCm on Windows",)
    assert rocm.env["PYTORCH_BUILD_VERSION"] == "2.6.0+rocm6.2.4" and rocm.asserts["USE_ROCM"] == "ON"
    plain = made(build("2.6.0", compiler="gcc-11"), ask("none"))
    assert plain.env["PYTORCH_BUILD_VERSION"] == "2.6.0+cpu" and "git" not in plain.toolchain
    assert "cuda" not in plain.toolchain and "cudnn" not in plain.toolchain and "rocm" not in plain.toolchain


def test_compilers_by_name() -> None:
    def named(compiler: str, cuda: str | None = "12.4") -> dict[str, str]:
        env = made(build("2.6.0", cuda=cuda, compiler=compiler), ask("sm_86")).env
        return {name: env[name] for name in ("CC", "CXX", "CUDAHOSTCXX") if name in env}

    assert named("gcc-12.2.0") == {"CC": "gcc-12", "CXX": "g++-12", "CUDAHOSTCXX": "g++-12"}
    assert named("clang-17.0.6") == {"CC": "clang-17", "CXX": "clang++-17"}
    assert named("gcc-5") == {"CC": "gcc-5", "CXX": "g++-5", "CUDAHOSTCXX": "g++-5"}
    assert named("gcc-4.9") == {"CC": "gcc-4.9", "CXX": "g++-4.9", "CUDAHOSTCXX": "g++-4.9"}


@pytest.mark.parametrize(
    ("torch", "cmake", "numpy", "setuptools"),
    [
        ("1.10.2", ">=3.10,<4", "<2", "<60"),
        ("2.0.1", ">=3.18,<4", "<2", "<74"),
        ("2.7.1", ">=3.18,<4", ">=1.26", "<82"),
        ("2.8.0", ">=3.27", ">=1.26", "<82"),
    ],
)
def test_pins(torch: str, cmake: str, numpy: str, setuptools: str) -> None:
    pins = made(build(torch, cuda="11.8", compiler="gcc-11"), ask("sm_86")).pins
    assert (pins["cmake"], pins["numpy"], pins["setuptools"]) == (cmake, numpy, setuptools)
    assert ("build" in pins) == (torch == "2.15.0")


def test_the_front_end_brings_its_packages() -> None:
    assert {"build", "scikit-build-core"} <= set(made(build("2.15.0", cuda="13.0"), ask("sm_86")).pins)


def test_flags_add_up_and_other_variables_do_not() -> None:
    env = {"CXXFLAGS": "-a", "X": "1"}
    _join_flags(env, {"CXXFLAGS": "-b", "CFLAGS": "-c", "X": "2"})
    assert env == {"CXXFLAGS": "-a -b", "CFLAGS": "-c", "X": "2"}


@pytest.mark.parametrize(
    ("torch", "gpu", "memory", "archs", "jobs", "wanted"),
    [
        ("2.6.0", "sm_86", None, 1, None, (30.0, 8.0, (202, 404))),
        ("2.6.0", "sm_86", None, 3, None, (30.0, 8.0, (302, 604))),
        ("2.6.0", "sm_86", "8G", 1, "2", (30.0, 8.0, (808, 1616))),
        ("2.6.0", "sm_86", "64G", 1, "8", (30.0, 8.0, (202, 404))),
        ("2.6.0", "none", None, 3, None, (12.0, 4.0, (52, 104))),
        ("1.13.1", "sm_86", "2G", 1, "1", (30.0, 2.5, (1010, 2020))),
    ],
)
def test_costs_by_memory(
    torch: str, gpu: str, memory: str | None, archs: int, jobs: str | None, wanted: tuple[float, float, tuple[int, int]]
) -> None:
    candidate = build(torch, cuda="11.8" if gpu != "none" else None, compiler="gcc-11")
    bare = ask(gpu, memory=memory)
    inputs = BuildInputs(arch_list=("8.0", "8.6", "9.0")[:archs])
    recipe = made(candidate, Question(bare.machine, bare.wish, FACTS, inputs))
    assert recipe.env.get("MAX_JOBS") == jobs
    assert (recipe.disk_gib, recipe.memory_gib, recipe.minutes) == wanted


def test_blas_that_is_there_is_taken() -> None:
    def blas(*kinds: str, **flags: Any) -> tuple[str, bool, str | None]:
        question = ask("none", **flags)
        kits = tuple(Toolkit(kind=kind, version="1") for kind in kinds)
        question = Question(msgspec.structs.replace(question.machine, toolkits=kits), question.wish, FACTS)
        found, recipe = plan_blas(question), made(build("2.6.0"), question)
        assert (recipe.env["BLAS"], recipe.asserts["BLAS"], recipe.asserts["LAPACK"]) == (found.name,) * 3
        return found.name, bool(found.pins), found.prefix

    assert blas() == ("MKL", True, ".")
    assert blas(os="windows") == ("MKL", True, "Library")
    assert blas("mkl") == ("MKL", False, None)
    assert blas("openblas") == ("OpenBLAS", False, None)
    assert blas("mkl", "openblas") == ("MKL", False, None)
    assert blas(arch="aarch64") == ("OpenBLAS", False, None)
    assert blas("mkl", arch="aarch64") == ("OpenBLAS", False, None)


def test_what_a_plan_warns_of() -> None:
    def codes(*gpu: str, **flags: Any) -> set[str]:
        return {warning.code for warning in plan(*gpu, **flags).warnings}

    assert "driver-needed" in codes("sm_86") and "driver-needed" not in codes("sm_86", driver="580.65")
    assert "driver-needed" not in codes("Jetson Nano") and "driver-needed" not in codes("none")
    assert "other-vendor-unused" in codes("sm_86", "gfx1030") and "other-vendor-unused" not in codes("sm_86", "sm_61")
    assert "gpu-name-ambiguous" in codes("GT 730") and "gpu-name-ambiguous" not in codes("RTX 3090")
    assert "kepler" in codes("sm_37") and "kepler" not in codes("sm_50")
    assert "jetson-wheels" in codes("Jetson Nano") and "jetson-wheels" not in codes("sm_86")
    assert "no-gpu-named" in codes() and "no-gpu-named" not in codes("none")
    assert "mps" in codes("none", os="macos", arch="arm64") and "mps" not in codes("none", os="macos")
    assert "hsa-override" in codes("gfx1031", torch="2.9.1") and "hsa-override" not in codes("gfx1030", torch="2.9.1")
    assert "python-missing" in codes("sm_61", torch="1.12.1", python="3.12")
    assert "python-missing" not in codes("sm_61", torch="1.12.1", python="3.10")
    assert "gpu-not-served" in codes("sm_37", "sm_90") and "gpu-not-served" not in codes("sm_61", "sm_90")


@pytest.mark.parametrize(
    ("settings", "slow"),
    [
        ({}, True),
        ({"CMAKE_BUILD_TYPE": "Debug"}, False),
        ({"DEBUG": "1"}, False),
        ({"DEBUG": "0"}, True),
        ({"CMAKE_CXX_FLAGS_RELEASE": "-O0 -g"}, False),
        ({"CMAKE_CXX_FLAGS_RELEASE": "-O0 -O2"}, True),
        ({"CMAKE_BUILD_TYPE": "RelWithDebInfo", "CMAKE_CXX_FLAGS_RELEASE": "-O0"}, True),
        ({"CXXFLAGS": "-O0"}, True),
    ],
)
def test_an_unoptimised_build_is_estimated_as_one(settings: dict[str, str], slow: bool) -> None:
    from rekindle.api.plan_torch import plan_build
    from rekindle.model.plan import Wish

    machine = machine_from_flags(gpu=["none"], distro="debian-12", os="linux")
    minutes = {}
    for torch in ("1.13.1", "2.6.0"):
        made = plan_build(machine, Wish(build=True, torch=torch, python="3.11", settings=tuple(settings.items())))
        assert made.build is not None and made.build.minutes is not None
        minutes[torch] = made.build.minutes[0]
    assert minutes == ({"1.13.1": 32, "2.6.0": 52} if slow else {"1.13.1": 17, "2.6.0": 27})


def test_cudnn_at_the_edge_of_what_it_has_code_for() -> None:
    floor = FACTS.cudnn.cudnn["8.7.0"].cuda["11.x"]
    assert planned_cudnn(build("2.0.1", cuda="11.8"), ask(str(floor), cudnn="8.7.0")) == "8.7.0", "the very oldest card"
    old = build("1.10.2", cuda="10.2")
    assert planned_cudnn(old, ask("sm_70")) == planned_cudnn(old, ask())


def test_the_architectures_of_one_build() -> None:
    question = ask("sm_89")
    made = recipe_of(build("2.0.1", cuda="11.7", compiler="gcc-11"), question)
    assert made.arch_list == ("8.6",), "CUDA 11.7 does not know 8.9; its 8.6 code runs there"


@pytest.mark.parametrize(
    ("compiler", "called"), [("gcc-4.9", "gcc-4.9"), ("gcc-5.4", "gcc-5"), ("gcc-12.2.0", "gcc-12")]
)
def test_a_compiler_is_called_by_its_number(compiler: str, called: str) -> None:
    made = recipe_of(build("1.4.0", compiler=compiler), ask())
    assert made.env["CC"] == called


def test_a_processor_that_is_no_x86_or_not_known_gets_no_x86_settings() -> None:
    for question in (ask(arch="aarch64", cpu="neoverse_n1"), ask()):
        made = recipe_of(build("2.7.1", compiler="gcc-13"), question)
        assert "CXX_AVX2_FOUND" not in made.cmake
    old = ask(cpu="ivybridge")
    assert recipe_of(build("2.7.1", compiler="gcc-13"), old).cmake["CXX_AVX2_FOUND"] == "OFF"


@pytest.mark.parametrize(("threads", "jobs"), [(4, "4"), (None, "8")])
def test_jobs_of_a_build(threads: int | None, jobs: str) -> None:
    question = ask(memory=512.0)
    question = with_machine(question, cpu=msgspec.structs.replace(question.machine.cpu, threads=threads))
    made = recipe_of(build("2.6.0", compiler="gcc-13"), question)
    assert made.env["MAX_JOBS"] == jobs
    assert "MAX_JOBS" not in recipe_of(build("2.6.0", compiler="gcc-13"), ask()).env


def test_a_build_is_never_promised_in_less_than_five_minutes() -> None:
    question = ask(memory=4096.0)
    question = with_machine(question, cpu=msgspec.structs.replace(question.machine.cpu, threads=4000))
    assert recipe_of(build("2.6.0", compiler="gcc-13"), question).minutes == (5, 10)


def test_cmake_four_came_late() -> None:
    def pinned(torch: str) -> str:
        return recipe_of(build(torch, compiler="gcc-13"), ask()).pins["cmake"]

    assert pinned("2.7.1").endswith(",<4")
    assert "<4" not in pinned("2.8.0")
