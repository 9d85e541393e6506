"""The machines the project began with: each is answered, and the essentials of the answer are asserted.

The whole text lies in tests/plans/golden; ``python tools/golden_plans.py`` writes it again after a change of facts.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rekindle.facts import load_facts
from rekindle.model.plan import Plan, Wish
from rekindle.model.version import compare
from rekindle.plan.describe import machine_from_flags, machine_profile
from rekindle.plan.solve import make_plan
from rekindle.render.plan import plan_view
from rekindle.render.screen import Screen

GOLDEN = Path(__file__).parents[2] / "plans" / "golden"


def seed_plans() -> dict[str, Plan]:
    facts = load_facts()
    plans = {}
    for name in ("k40c-windows", "k80-linux", "xeon-e5v2-rtx3060", "gfx1100-linux", "gfx1100-windows"):
        machine, wish = machine_profile(name, facts)
        plans[name] = make_plan(machine, wish, facts)
    machine, wish = machine_profile("xeon-e5v2-rtx3060", facts)
    plans["xeon-e5v2-rtx3060-build"] = make_plan(machine, Wish(build=True), facts)
    machine = machine_from_flags(facts, gpu=["GeForce RTX 5070"], os="windows", cuda="12.3")
    plans["rtx5070-cuda12.3"] = make_plan(machine, Wish(cuda="12.3"), facts)
    plans["rtx5070-cuda12.3-build"] = make_plan(machine, Wish(cuda="12.3", build=True), facts)
    return plans


def render(plan: Plan) -> str:
    out = io.StringIO()
    plan_view(plan, Screen(out, color="never", width=100, verbosity=1))
    return out.getvalue()


def spoken(plan: Plan) -> str:
    return " ".join(reason.text for reason in (*plan.because, *plan.warnings))


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return seed_plans()


def test_the_texts_are_as_kept(plans: dict[str, Plan]) -> None:
    for name, plan in plans.items():
        kept = (GOLDEN / f"{name}.txt").read_text("utf-8")
        assert render(plan) == kept, f"{name} changed; run tools/golden_plans.py and read the difference"


def test_k40c_gets_an_old_cudnn_and_visual_studio_2019(plans: dict[str, Plan]) -> None:
    plan = plans["k40c-windows"]
    assert plan.answer == "build" and plan.as_asked and plan.torch == "2.0.1"
    assert plan.build is not None and plan.cuda is not None and plan.cudnn is not None
    assert compare(plan.cuda, "11.4") >= 0 and compare(plan.cuda, "12.0") < 0
    assert compare(plan.cudnn, "8.7.0") <= 0
    assert plan.build.compiler == "msvc-19.29" and "2019" in plan.build.toolchain["compiler"]
    assert plan.build.env["TORCH_CUDA_ARCH_LIST"] == "3.5" == ";".join(plan.arch_list)
    assert plan.build.env["USE_NCCL"] == "0"
    assert any("v2.0.1" in command for command in plan.commands)


def test_k80_gets_an_official_wheel_with_cudnn_8_and_a_warning(plans: dict[str, Plan]) -> None:
    plan = plans["k80-linux"]
    assert (plan.answer, plan.torch, plan.variant) == ("install", "2.3.1", "cu118")
    assert plan.cudnn is not None and plan.cudnn.startswith("8.7")
    assert "no run of this wheel on such a card is on record" in spoken(plan)


def test_rtx5070_needs_no_build_and_cannot_have_12_3(plans: dict[str, Plan]) -> None:
    plan = plans["rtx5070-cuda12.3"]
    assert plan.answer == "install" and not plan.as_asked
    assert plan.cuda is not None and compare(plan.cuda, "12.8") >= 0
    assert "CUDA 12.3 cannot compile for sm_120" in spoken(plan)
    built = plans["rtx5070-cuda12.3-build"]
    assert built.answer == "build" and built.arch_list == ("12.0",)
    assert [change.what for change in built.changes] == ["cuda"]


def test_ivy_bridge_needs_no_build_and_never_gets_fma(plans: dict[str, Plan]) -> None:
    plan = plans["xeon-e5v2-rtx3060"]
    assert plan.answer == "install" and plan.as_asked and "dispatch" in spoken(plan)
    built = plans["xeon-e5v2-rtx3060-build"].build
    assert built is not None
    assert built.cmake["CXX_AVX2_FOUND"] == "OFF" == built.asserts["CXX_AVX2_FOUND"]
    assert built.env["CXXFLAGS"] == "-march=ivybridge"
    assert "fma" not in " ".join(built.env.values()).lower()
    assert (
        not {"USE_AVX2", "USE_AVX", "CMAKE_ARGS", "CPU_CAPABILITY_NAMES", "USE_CUPTI"}
        & (built.env | built.cmake).keys()
    )


def test_gfx1100_on_linux_and_windows(plans: dict[str, Plan]) -> None:
    assert plans["gfx1100-linux"].answer == "install" and "download.pytorch.org" in plans["gfx1100-linux"].commands[0]
    windows = plans["gfx1100-windows"]
    assert windows.answer == "install" and "device-gfx1100" in windows.commands[0]
    assert "repo.amd.com" in windows.commands[0]
