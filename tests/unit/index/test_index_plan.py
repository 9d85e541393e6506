"""A wheel somebody built before is proposed before a build: from a named or a configured wheelhouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.model.document import encode
from rekindle.model.plan import Wish
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
from tiny_wheels import make_wheel


@pytest.fixture
def house(tmp_path: Path) -> Path:
    report = tmp_path / "report.json"
    gpu = WheelGpu(torch_kernels=Kernels(sass=("sm_35",)))
    report.write_bytes(encode(WheelReport(name="torch", cuda="11.8", gpu=gpu)))
    wheel = make_wheel(tmp_path, "torch", "2.7.1+rekindle.cu118.sm35", tag="cp312-cp312-win_amd64")
    api.index_add(str(tmp_path / "ein haus"), [str(wheel)], report=str(report))
    return tmp_path / "ein haus"


def _kepler() -> object:
    return api.machine_from_flags(gpu=["Tesla K40c"], os="windows", arch="x86_64")


def test_a_fitting_wheel_is_preferred_to_a_build(house: Path) -> None:
    assert api.plan(_kepler(), Wish(torch=">=2.0", python="3.12"), wheelhouses=()).answer == "build"  # type: ignore[arg-type]
    plan = api.plan(_kepler(), Wish(torch=">=2.0", python="3.12"), wheelhouses=[str(house)])  # type: ignore[arg-type]
    assert plan.answer == "install" and plan.torch == "2.7.1"
    assert any("torch-2.7.1+rekindle.cu118.sm35-cp312-cp312-win_amd64.whl" in line for line in plan.commands)


def test_a_withdrawn_wheel_is_not(house: Path) -> None:
    api.index_yank(str(house), "torch-2.7.1+rekindle.cu118.sm35-cp312-cp312-win_amd64.whl", "crashes")
    assert api.plan(_kepler(), Wish(torch=">=2.0", python="3.12"), wheelhouses=[str(house)]).answer == "build"  # type: ignore[arg-type]


def test_configured_wheelhouses_are_asked_and_a_silent_one_is_told(
    house: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REKINDLE_WHEELHOUSES", f"'{house}' /nowhere/at/all")
    plan = api.plan(_kepler(), Wish(torch=">=2.0", python="3.12"))  # type: ignore[arg-type]
    assert plan.answer == "install"
    assert [w.code for w in plan.warnings].count("wheelhouse-silent") == 1
    monkeypatch.delenv("REKINDLE_WHEELHOUSES")
    assert api.plan(_kepler(), Wish(torch=">=2.0", python="3.12")).answer == "build"  # type: ignore[arg-type]
