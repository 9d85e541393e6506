"""A wheel somebody built before is taken before a build, and after an official wheel."""

from __future__ import annotations

from rekindle.facts import load_facts
from rekindle.model.plan import Plan, Wish
from rekindle.plan.candidates import HouseWheel
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.solve import make_plan

FACTS = load_facts()
KEPLER = HouseWheel(
    torch="2.0.1+cu118",
    python="3.10",
    platform="linux_x86_64",
    location="/wheels/torch-2.0.1+cu118-cp310-cp310-linux_x86_64.whl",
    cuda="11.8",
    archs=("3.5",),
)


def plan_for(gpu: str, wish: Wish, *wheels: HouseWheel) -> Plan:
    return make_plan(machine_from_flags(FACTS, gpu=[gpu], os="linux"), wish, FACTS, wheels)


def test_it_saves_a_build() -> None:
    wish = Wish(torch="2.0.1", python="3.10")
    assert plan_for("sm_35", wish).answer == "build"
    plan = plan_for("sm_35", wish, KEPLER)
    assert plan.answer == "install" and plan.as_asked
    assert KEPLER.location in plan.commands[-2] + plan.commands[-1]
    assert any("wheelhouse" in reason.code for reason in plan.because)


def test_it_must_fit_like_any_other() -> None:
    wish = Wish(torch="2.0.1", python="3.10")
    assert plan_for("sm_30", wish, KEPLER).torch != "2.0.1"
    assert plan_for("sm_35", Wish(torch="2.0.1", python="3.11"), KEPLER).answer == "build"


def test_an_official_wheel_comes_first() -> None:
    wish = Wish(torch="2.0.1", python="3.10")
    plan = plan_for("sm_86", wish, KEPLER)
    assert plan.answer == "install" and not any("/wheels/" in command for command in plan.commands)
