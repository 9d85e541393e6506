"""A wheel that was built is read back: it must hold code for exactly what was planned."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from rekindle.api.build_wheels import read_back
from rekindle.model.build import BuildResult
from rekindle.model.plan import Plan
from rekindle.model.wheel import Kernels, LibraryGpu, WheelGpu, WheelReport


def answer(monkeypatch: pytest.MonkeyPatch, plan: Plan, gpu: WheelGpu, wheel: str = "torch.whl") -> str | None:
    """What reading the wheel back says of a build by this plan; None where all is well."""

    def inspected(target: str, **told: Any) -> WheelReport:
        assert target == wheel and told["cpu"] is False, "its machine code alone"
        return WheelReport(gpu=gpu)

    monkeypatch.setattr(sys.modules["rekindle.api.build_wheels"], "inspect", inspected)
    result = BuildResult(project=plan.project, wheel=wheel, wheel_sha256="0", plan=plan, plan_digest="0", log="a.log")
    failure = read_back(result, plan)
    if failure is None:
        return None
    assert failure.phase == "read back" and failure.log == "a.log" and failure.facts[-1].ok is False
    return failure.message


def test_the_planned_code_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(answer="build", torch="2.6.0", cuda="12.4", arch_list=("6.1", "8.6"))
    assert answer(monkeypatch, plan, WheelGpu(own_kernels=Kernels(sass=("sm_61", "sm_86")))) is None
    less = answer(monkeypatch, plan, WheelGpu(own_kernels=Kernels(sass=("sm_61",))))
    assert less == "the wheel was to hold code for 6.1; 8.6 but holds sm_61"
    assert "holds none" in (answer(monkeypatch, plan, WheelGpu()) or "")
    amd = Plan(answer="build", torch="2.6.0", rocm="6.2", arch_list=("gfx1031",))
    assert answer(monkeypatch, amd, WheelGpu(own_kernels=Kernels(gfx=("gfx1031",)))) is None


def test_libraries_beside_the_kernels_count_for_others_than_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = WheelGpu(libraries=(LibraryGpu(file="_C.so", sass=("sm_61",)),))
    wanted: dict[str, Any] = {"answer": "build", "torch": "2.6.0", "cuda": "12.4", "arch_list": ("6.1",)}
    assert answer(monkeypatch, Plan(project="torchvision", **wanted), gpu) is None
    assert "holds none" in (answer(monkeypatch, Plan(**wanted), gpu) or "")


def test_without_a_wheel_or_without_a_card_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = Plan(answer="build", torch="2.6.0", cuda="12.4", arch_list=("6.1",))
    assert answer(monkeypatch, planned, WheelGpu(), wheel="") is None
    assert answer(monkeypatch, Plan(answer="build", torch="2.6.0"), WheelGpu()) is None
