"""A recipe holds only settings that the release reads, and everything a build needs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from rekindle.facts import load_facts
from rekindle.model.machine import Python
from rekindle.model.plan import BuildRecipe, Wish
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.solve import make_plan

FACTS = load_facts()
READ = tomllib.loads((Path(__file__).parents[2] / "plans" / "options.toml").read_text("utf-8"))["version"]
# Read by CMake and the build tools themselves, in every release.
ALWAYS = {"CC", "CXX", "CFLAGS", "CXXFLAGS", "CUDAHOSTCXX", "CMAKE_POLICY_VERSION_MINIMUM", "CMAKE_GENERATOR"}
# Not options, so setup.py does not forward them; they go into a file that CMAKE_PROJECT_INCLUDE names.
CACHE = {"CXX_AVX2_FOUND", "CXX_AVX512_FOUND", "C_AVX2_FOUND", "C_AVX512_FOUND"}


def recipe(torch: str, gpu: str, system: str, cpu: str) -> BuildRecipe:
    machine = machine_from_flags(FACTS, gpu=[gpu], os=system, cpu=cpu)
    plan = make_plan(machine, Wish(torch=torch, build=True), FACTS)
    assert plan.build is not None
    return plan.build


@pytest.mark.parametrize("torch", READ)
@pytest.mark.parametrize("gpu", ["sm_35", "sm_61", "sm_86", "gfx1030", "none"])
@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize("cpu", ["ivybridge", "skylake"])
def test_every_setting_is_read_by_that_release(torch: str, gpu: str, system: str, cpu: str) -> None:
    if gpu.startswith("gfx") and system == "windows":
        pytest.skip("ROCm builds on Windows need AMD's newer releases")
    built = recipe(torch, gpu, system, cpu)
    known = {*READ[torch]["options"], *READ[torch]["environment"], *ALWAYS}
    assert set(built.env) <= known, set(built.env) - known
    assert set(built.cmake) <= CACHE
    assert not {"USE_AVX", "USE_AVX2", "USE_CUPTI", "CMAKE_ARGS", "CPU_CAPABILITY_NAMES"} & {*built.env, *built.cmake}


def test_a_recipe_is_complete() -> None:
    built = recipe("2.6.0", "sm_86", "linux", "skylake")
    assert built.compiler and {"cuda", "cudnn", "compiler", "python", "cmake"} <= set(built.toolchain)
    assert all(text for text in built.toolchain.values())
    assert {"setuptools", "numpy", "cmake", "ninja"} <= set(built.pins)
    assert built.asserts["USE_CUDA"] == "ON"
    assert built.disk_gib and built.memory_gib and built.minutes and built.minutes[0] < built.minutes[1]


def test_fewer_threads_and_less_memory_take_longer() -> None:
    def minutes(memory: str) -> int:
        machine = machine_from_flags(FACTS, gpu=["sm_86"], os="linux", memory=memory)
        plan = make_plan(machine, Wish(torch="2.6.0", build=True), FACTS)
        assert plan.build is not None and plan.build.minutes is not None
        return plan.build.minutes[0]

    assert minutes("8G") > minutes("64G")


def test_a_build_is_for_the_newest_python_with_headers() -> None:
    machine = machine_from_flags(FACTS, gpu=["none"], os="linux", cpu="skylake")
    pythons = (
        Python(version="3.13.1", path="/a", note="no headers"),
        Python(version="3.12.4", path="/b"),
        Python(version="3.9.18", path="/c"),
    )
    here = msgspec.structs.replace(machine, pythons=pythons)
    assert make_plan(here, Wish(torch="2.6.0", build=True), FACTS).python == "3.12"
    assert make_plan(here, Wish(torch="2.6.0"), FACTS).python == "3.13", "a wheel needs no headers"
    bare = msgspec.structs.replace(machine, pythons=pythons[:1])
    assert make_plan(bare, Wish(torch="2.6.0", build=True), FACTS).python == "3.13", "better than none"
