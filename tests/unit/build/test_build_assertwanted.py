"""What was planned against what was configured, on summaries, caches and flags as real trees write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.build import assertwanted
from rekindle.build.assertwanted import (
    built_targets,
    check_configuration,
    gpu_targets,
    planned_settings,
    read_summary,
    summary_lines,
)
from rekindle.model.plan import BuildRecipe, Plan

LOG = """-- Found something
CMake Warning at cmake/Dependencies.cmake:1670 (message):
  Not compiling with MKLDNN.  Suppress this warning with -DUSE_MKLDNN=OFF
-- ******** Summary ********
-- General:
--   Build type            : Release
--   USE_BLAS              : 1
--     BLAS                : open
--   USE_CUDA              : ON
--     USE_CUDNN           : OFF
--   USE_MKLDNN            : OFF
--   USE_MKL               :
-- Configuring done
""".splitlines()


def plan(arch_list: tuple[str, ...] = (), asserts: dict[str, str] | None = None, **env: str) -> Plan:
    recipe = BuildRecipe(source="x", env=env, asserts=asserts or {})
    return Plan(answer="build", torch="2.0.1", arch_list=arch_list, build=recipe)


def check(tmp_path: Path, wanted: Plan, ninja: str = "", cache: str = "") -> Any:
    (tmp_path / "build.ninja").write_text(ninja)
    (tmp_path / "CMakeCache.txt").write_text(cache)
    return {fact.name: fact for fact in check_configuration(wanted, tmp_path, summary_lines(LOG), LOG)}


def test_summary() -> None:
    told = read_summary(summary_lines(LOG))
    assert told["BLAS"] == "open"
    assert told["USE_MKL"] == ""
    assert told["Build type"] == "Release"


def test_agreement(tmp_path: Path) -> None:
    facts = check(tmp_path, plan(BLAS="OpenBLAS", USE_CUDA="1", CMAKE_BUILD_TYPE="Release", USE_MKL="0"))
    assert all(fact.ok for fact in facts.values())


def test_a_library_that_was_switched_off_silently(tmp_path: Path) -> None:
    fact = check(tmp_path, plan(USE_MKLDNN="1"))["USE_MKLDNN"]
    assert fact.ok is False
    assert "Not compiling with MKLDNN" in fact.where


def test_asserts_of_the_plan(tmp_path: Path) -> None:
    facts = check(
        tmp_path, plan(asserts={"USE_CUDNN": "ON", "CXX_AVX2_FOUND": "OFF"}), cache="CXX_AVX2_FOUND:BOOL=ON\n"
    )
    assert facts["USE_CUDNN"].ok is False
    assert facts["CXX_AVX2_FOUND"].ok is False


def test_what_nobody_tells_is_unknown(tmp_path: Path) -> None:
    assert check(tmp_path, plan(USE_NOVELTY="1"))["USE_NOVELTY"].ok is None


CUDA = (
    "build a.cu.o: CUDA a.cu\n  FLAGS = -gencode arch=compute_35,code=sm_35 -gencode arch=compute_35,code=compute_35\n"
)


def test_arch_list_is_read_from_the_flags(tmp_path: Path) -> None:
    assert check(tmp_path, plan(("3.5+PTX",)), ninja=CUDA)["arch list"].ok is True
    assert check(tmp_path, plan(("3.5", "5.2")), ninja=CUDA)["arch list"].ok is False
    more = CUDA.replace("code=sm_35", "code=sm_35 -gencode arch=compute_90,code=sm_90")
    assert check(tmp_path, plan(("3.5",)), ninja=more)["arch list"].ok is False


def test_single_files_for_a_variant_of_a_planned_card_are_no_difference(tmp_path: Path) -> None:
    """2.6.0 compiles RowwiseScaledMM.cu for sm_90a where sm_90 is planned."""
    one = "build {0}.cu.o: CUDA {0}.cu\n  FLAGS = -gencode arch=compute_{1},code=sm_{1}\n"
    both = one.format("a", "90") + one.format("RowwiseScaledMM", "90a")
    assert check(tmp_path, plan(("9.0",)), ninja=both)["arch list"].ok is True
    assert check(tmp_path, plan(("9.0",)), ninja=one.format("a", "90a"))["arch list"].ok is False
    assert check(tmp_path, plan(("8.0",)), ninja=both)["arch list"].ok is False
    assert check(tmp_path, plan(("9.0a",)), ninja=one.format("a", "90a"))["arch list"].ok is True
    assert built_targets(plan(("9.0",)), {"sm_90", "sm_90a"}).ok is True
    assert built_targets(plan(("9.0",)), {"sm_90a"}).ok is False


def test_amd_targets(tmp_path: Path) -> None:
    ninja = "build a.o: HIP a.hip\n  FLAGS = --offload-arch=gfx1031 --offload-arch=gfx906\n"
    assert check(tmp_path, plan(("gfx906", "gfx1031")), ninja=ninja)["arch list"].ok is True


@pytest.mark.parametrize("quoted", [False, True])
def test_amd_targets_stand_in_the_script_of_each_object(tmp_path: Path, quoted: bool) -> None:
    """FindHIP's flags are in no line of build.ninja: "cmake -P a.hip.o.cmake" is all that stands there."""
    place = tmp_path / "build" / ("with space" if quoted else "here")
    place.mkdir(parents=True)
    script = place / "torch_hip_generated_a.hip.o.cmake"
    script.write_text("set(HIP_CLANG_FLAGS -fPIC;--offload-arch=gfx906;--offload-arch=gfx1100)\n")
    said = f'"{script}"' if quoted else str(script)
    ninja = f"build a.hip.o: CUSTOM_COMMAND a.hip\n  COMMAND = cd /x && cmake -D v:BOOL=OFF -P {said}\n"
    assert check(script.parents[1], plan(("gfx906", "gfx1100")), ninja=ninja)["arch list"].ok is True
    fact = check(script.parents[1], plan(("gfx906",)), ninja=ninja)["arch list"]
    assert fact.ok is False and fact.found == "gfx1100; gfx906"
    gone = ninja.replace("generated_a", "gone")
    assert check(script.parents[1], plan(("gfx906",)), ninja=gone)["arch list"].ok is None


def test_scripts_of_other_kinds_and_places_say_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "a.hip.o.cmake"
    inside = tmp_path / "build" / "codegen.cmake"
    inside.parent.mkdir()
    for script in (outside, inside):
        script.write_text("--offload-arch=gfx906")
        ninja = f"build a: CUSTOM_COMMAND a.hip\n  COMMAND = cmake -P {script}\n"
        assert check(tmp_path / "build", plan(("gfx906",)), ninja=ninja)["arch list"].ok is None
    release = tmp_path / "build" / "a.cu.o.Release.cmake"
    release.write_text("-gencode arch=compute_35,code=sm_35")
    ninja = f"build a: CUSTOM_COMMAND a.cu\n  COMMAND = cmake -P {release} && true\n"
    assert check(tmp_path / "build", plan(("3.5",)), ninja=ninja)["arch list"].ok is True


def test_both_spellings_of_cuda() -> None:
    assert gpu_targets('"--generate-code=arch=compute_80,code=[compute_80,sm_80]"') == {"compute_80", "sm_80"}
    assert gpu_targets("-gencode arch=compute_90a,code=sm_90a") == {"sm_90a"}


def test_what_the_wheel_really_holds() -> None:
    assert built_targets(plan(("3.5", "5.2+PTX")), {"sm_35", "sm_52"}).ok is True
    assert built_targets(plan(("3.5",)), set()).ok is False
    assert built_targets(plan(("gfx1031",)), {"gfx1030"}).ok is False


def test_the_reason_is_no_folder_of_that_name_and_rocm_is_also_called_hip() -> None:
    log = [
        "-- Did not find system Eigen: not found",
        "-- Found Python: /home/me/rocm/ws/python",
        "-- Performing Test HAS_FLTO_AUTO",
        "CMake Warning at cmake/public/LoadHIP.cmake:73 (find_package):",
        '  No "FindHIP.cmake" found in CMAKE_MODULE_PATH.',
        "",
    ]
    assert assertwanted._reason("USE_ROCM", log[:3]) is None
    assert 'No "FindHIP.cmake" found' in (assertwanted._reason("USE_ROCM", log) or "")


def test_the_summary_is_its_own_block_alone() -> None:
    log = [*LOG, "-- Summary of the tests", "-- more", ""]
    assert summary_lines(log) == [line for line in LOG[4:]] + ["-- Summary of the tests", "-- more"]
    again = [*LOG, "** Summary ***", "--   USE_CUDA : OFF", "", "--   USE_MKL : ON", "make: done", "-- USE_X : 1"]
    assert summary_lines(again) == ["--   USE_CUDA : OFF", "--   USE_MKL : ON"], "the last one, to where others speak"
    assert summary_lines(["-- Summary", "*** note ***"]) == []


def test_the_first_of_two_lines_of_a_summary_counts() -> None:
    assert read_summary(["--   BLAS : open", "--   BLAS : mkl"]) == {"BLAS": "open"}


def test_what_is_planned_is_what_the_plan_switches_and_asserts() -> None:
    env = {"USE_CUDA": "1", "CC": "gcc", "MAX_JOBS": "3", "BLAS": "MKL", "BUILD_TEST": "0", "USE_NINJA": "1"}
    cmake = {"CMAKE_BUILD_TYPE": "Release", "CAFFE2_X": "1", "BUILD_PYTHON": "1", "USE_SYSTEM_LIBS": "1"}
    recipe = BuildRecipe(source="x", env=env, cmake=cmake, asserts={"USE_CUDA": "ON", "CXX_AVX2_FOUND": "OFF"})
    assert planned_settings(Plan(answer="build", build=recipe)) == {
        "USE_CUDA": "ON", "BLAS": "MKL", "CMAKE_BUILD_TYPE": "Release", "BUILD_PYTHON": "1", "CXX_AVX2_FOUND": "OFF",
    }  # fmt: skip


@pytest.mark.parametrize(("project", "asked"), [("torch", True), ("torchvision", False)])
def test_nobody_wants_a_torch_without_blas(project: str, asked: bool, tmp_path: Path) -> None:
    recipe = BuildRecipe(source="x")
    wanted = Plan(answer="build", project=project, build=recipe)
    assert ("USE_BLAS" in check(tmp_path, wanted)) is asked
    assert "USE_LAPACK" not in check(tmp_path, wanted), "a summary that does not tell of it asks nothing"


def test_a_reason_stands_within_three_lines_of_the_word_for_it() -> None:
    why = "CMake Warning at cmake/x.cmake:1 (message):"
    assert assertwanted._reason("USE_MKLDNN", [why, "  one", "  MKLDNN  is   off"]) == f"{why} one MKLDNN is off"
    assert assertwanted._reason("USE_MKLDNN", [why, "  one", "  two", "  MKLDNN is off"]) is None
    assert assertwanted._reason("USE_MKLDNN", [why, "  MKLDNN", "  two", "  three"]) == f"{why} MKLDNN two"
    long = assertwanted._reason("USE_MKLDNN", [f"MKLDNN not found {'y' * 400}"])
    assert long is not None and len(long) == 300


def test_names_of_libraries_are_compared_as_the_summary_calls_them(tmp_path: Path) -> None:
    assert check(tmp_path, plan(BLAS="OPENBLAS"))["BLAS"].ok is True
    assert check(tmp_path, plan(BLAS="MKL"))["BLAS"].ok is False
    assert check(tmp_path, plan(CMAKE_BUILD_TYPE="Debug"))["CMAKE_BUILD_TYPE"].ok is False


def test_without_gpu_flags_the_cards_are_unknown_and_without_cards_nothing_is_asked(tmp_path: Path) -> None:
    fact = check(tmp_path, plan(("8.0",)), ninja="build a.o: CXX a.cpp\n  FLAGS = -O2\n")["arch list"]
    assert fact.ok is None and fact.wanted == "8.0" and fact.where == "no GPU flags in build.ninja"
    assert "arch list" not in check(tmp_path, plan(), ninja=CUDA)
