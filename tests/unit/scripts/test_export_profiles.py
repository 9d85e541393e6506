"""The recipes people passed around, planned and exported for every machine profile, with their mistakes gone."""

from __future__ import annotations

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.plan import Plan

PROFILES = sorted(load_facts().machines.machine)


def _plan(name: str, *, build: bool) -> tuple[Plan, str]:
    machine, wish = api.machine_profile(name)
    return api.plan(machine, msgspec.structs.replace(wish, build=build), wheelhouses=()), machine.os.system


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_can_be_exported(name: str) -> None:
    for build in (False, True):
        plan, system = _plan(name, build=build)
        if plan.answer == "none":
            continue
        for kind in ("bat",) if system == "windows" else ("sh", "dockerfile"):
            try:
                text = api.export(plan, kind, system=system).text
            except BadInput as error:
                # Not every toolkit has a published image; the answer then says how to name one.
                assert kind == "dockerfile" and error.remedy and "--image" in error.remedy
                continue
            if plan.build:
                assert all(name in text for name in plan.build.env), kind


def test_kepler_on_windows() -> None:
    plan, _ = _plan("k40c-windows", build=True)
    text = api.export(plan, "bat", system="windows").text
    assert "--branch v2.0.1" in text and "TORCH_CUDA_ARCH_LIST=3.5" in text
    assert "-vcvars_ver=14.2" in text, "CUDA 11.4 refuses Visual Studio 2022"
    assert "CMAKE_ARGS" not in text and "/arch:SSE4.1" not in text and "USE_AVX=" not in text
    assert plan.cudnn is None or plan.cudnn.startswith("8.7"), "the last with code for sm_35"


def test_xeon_e5_v2() -> None:
    plan, _ = _plan("xeon-e5v2-rtx3060", build=True)
    # The comments say why -mfma would be wrong; the commands must not have it.
    text = "\n".join(line for line in api.export(plan, "sh").text.splitlines() if not line.startswith("#"))
    assert "-march=ivybridge" in text and "-mfma" not in text and "haswell" not in text.lower()
    assert "USE_AVX2" not in text and "CXX_AVX2_FOUND" in text and "CPU_CAPABILITY_NAMES" not in text
    wheel, _ = _plan("xeon-e5v2-rtx3060", build=False)
    assert wheel.answer == "install", "an old CPU alone needs no build"


def test_rtx_5070() -> None:
    plan, _ = _plan("rtx5070-windows", build=False)
    assert plan.answer == "install", "official wheels have had sm_120 since 2.7 with CUDA 12.8"
    built, _ = _plan("rtx5070-windows", build=True)
    text = api.export(built, "bat", system="windows").text
    assert "TORCH_CUDA_ARCH_LIST=12.0" in text and "8.9" not in text and "allow-unsupported-compiler" not in text


def test_rocm_on_linux_and_windows() -> None:
    plan, _ = _plan("gfx1100-linux", build=True)
    assert plan.answer in ("build", "none")
    if plan.answer == "build":
        assert "PYTORCH_ROCM_ARCH" in api.export(plan, "sh").text
    windows, _ = _plan("gfx1100-windows", build=False)
    if windows.answer == "install":
        assert "pip install" in api.export(windows, "bat", system="windows").text
