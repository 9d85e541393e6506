"""What single rules say and how sure they are, hazards that only warn, patched compilers, names of several chips."""

from __future__ import annotations

import pytest
from planning import FACTS, ask, build, changed, said, wheel

from rekindle.model.arch import parse_gfx
from rekindle.model.machine import Machine, Os, Toolkit
from rekindle.plan.assess import _driver_is_late, assess, with_hazards
from rekindle.plan.candidates import official_wheels
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.rules_toolchain import _first_fitting
from rekindle.plan.solve import _assess_wheels


def test_a_python_that_is_not_served_is_told_of_wheels_and_of_sources() -> None:
    question = ask("sm_86", python="3.13")
    (no_wheel,) = said("R301", wheel("2.0.1", "cu118"), question)
    (no_source,) = said("R301", build("2.0.1", cuda="11.8"), question)
    assert no_wheel.code == "python-has-no-wheel"
    assert no_wheel.reason == "the wheels of torch 2.0.1+cu118 are for Python 3.8 to 3.11, not for Python 3.13."
    assert no_source.code == "python-not-in-source"
    assert no_source.reason == "the sources of torch 2.0.1 are for Python 3.8 to 3.11, not for Python 3.13."


def test_little_memory_is_no_certain_refusal() -> None:
    """Swap helps, and the largest file may not be compiled."""
    (refusal,) = said("R501", build("2.6.0", cuda="12.4"), ask("sm_86", memory=2.0))
    assert (refusal.code, refusal.certain) == ("memory-small", False)
    assert "there are 2 GiB of memory" in refusal.reason


def test_an_untested_target_cites_the_wheels_own_source() -> None:
    tested = wheel("2.6.0", "rocm6.2.4")
    untested = changed(tested, untested={"linux_x86_64": (parse_gfx("gfx1100"),)}, source=("first", "second"))
    (refusal,) = said("R117", untested, ask("gfx1100"))
    assert (refusal.source, refusal.certain) == ("first", False)


def test_only_warnings_are_looked_up_for_what_is_shown() -> None:
    """What breaks was refused before; the same value comes back."""
    question = ask("sm_86", glibc="2.41")
    assessed = assess(build("2.0.1", cuda="11.8", compiler="gcc-13.2"), question)
    shown = with_hazards(assessed, question)
    assert shown is assessed
    assert {hazard.effect for hazard in shown.hazards} == {"warns"}
    assert "gcc13-dangling-reference" in {hazard.id for hazard in shown.hazards}
    assert "gcc13-missing-cstdint" not in {hazard.id for hazard in shown.hazards}


def test_a_compiler_that_takes_a_patch_is_better_than_none() -> None:
    one, question = build("2.6.0"), ask()
    assert _first_fitting(["gcc-15"], one, question) == "gcc-15"
    assert _first_fitting(["gcc-15", "gcc-14"], one, question) == "gcc-14", "the sources as they are come first"
    assert _first_fitting([], one, question) is None


def test_a_name_of_several_chips_keeps_the_others() -> None:
    (gpu,) = machine_from_flags(FACTS, gpu=["GeForce GT 730"]).gpus
    assert (str(gpu.arch), [str(arch) for arch in gpu.possible]) == ("sm_35", ["sm_30", "sm_21"])


@pytest.mark.parametrize(
    ("driver", "cuda", "late"),
    [("550.54.14", "12.4", False), ("550.54.13", "12.4", True), ("470.256.02", "11.4", False), (None, "12.4", False)],
)
def test_a_driver_that_runs_a_toolkit_by_compatibility_only(driver: str | None, cuda: str, late: bool) -> None:
    assert _driver_is_late(build("2.6.0", cuda=cuda), ask("sm_86", driver=driver)) is late
    assert _driver_is_late(build("2.6.0"), ask("sm_86", driver=driver)) is False


def test_where_one_fits_perfectly_only_its_neighbours_are_looked_at() -> None:
    question = ask("sm_86")
    looked = [one.candidate.torch for one in _assess_wheels(question)]
    every = [one.torch for one in official_wheels(question)]
    assert looked == every[: len(looked)]
    assert 0 < len(looked) < len(every) / 2
    asked = ask("sm_86", torch=">=1.0")
    assert len(_assess_wheels(asked)) == len(list(official_wheels(asked)))


@pytest.mark.parametrize(("here", "has"), [("12.4.99", True), ("12.4", True), ("12.5.1", False), (None, False)])
def test_a_toolkit_counts_by_its_first_two_numbers(here: str | None, has: bool) -> None:
    kits = (
        Toolkit(kind="cuda", version=here, path="/usr/local/cuda"),
        Toolkit(kind="cudnn", version="12.4", path="/x"),
    )
    assert bool(Machine(os=Os(system="linux"), toolkits=kits).cuda_folders("12.4")) is has
