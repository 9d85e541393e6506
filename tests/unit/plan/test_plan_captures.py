"""Plans for captured machines: what the doctor found there, answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle import api
from rekindle.model.plan import Plan

MACHINES = Path(__file__).parents[2] / "machines"


def plan_of(name: str) -> Plan:
    return api.plan(api.doctor(replay=MACHINES / name).machine)


@pytest.mark.parametrize("name", sorted(path.name for path in MACHINES.iterdir() if path.is_dir()))
def test_every_capture_has_an_answer(name: str) -> None:
    plan = plan_of(name)
    assert plan.answer != "none" and plan.because


def test_a_newer_driver_is_not_assumed() -> None:
    plan = plan_of("rtx5070-windows11")
    assert (plan.answer, plan.variant, plan.as_asked) == ("install", "cu128", True)


def test_a_jetson_keeps_its_jetpack() -> None:
    plan = plan_of("jetson-orin-nano")
    assert (plan.answer, plan.variant, plan.cuda) == ("install", "jp6", "12.6"), (
        "a ready wheel before hours of building"
    )


def test_a_display_card_does_not_hold_the_other_back() -> None:
    plan = plan_of("k40c-windows10")
    assert plan.answer == "build" and plan.arch_list == ("3.5",) and plan.torch == "2.0.1"
    assert any("Quadro K600" in warning.text for warning in plan.warnings)


def test_two_vendors_are_told_apart() -> None:
    plan = plan_of("rtx3090-rx6700xt-arch")
    assert plan.cuda and any(warning.code == "other-vendor-unused" for warning in plan.warnings)
