"""What a plan from elsewhere names: only what really lies in a place that the doctor found is known."""

from __future__ import annotations

import pytest

from rekindle.build.request import account_of
from rekindle.model.machine import Compiler, Machine, Os, Toolkit
from rekindle.model.plan import BuildRecipe, Plan

HERE = Machine(
    os=Os(system="linux"),
    toolkits=(Toolkit(kind="cuda", version="12.4", path="/usr/local/cuda-12.4"),),
    compilers=(Compiler(kind="gcc", version="12.2.0", path="/usr/bin/gcc"),),
)


def unknown(**settings: str) -> tuple[str, ...]:
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="git", env=settings))
    return account_of(plan, HERE).unknown


@pytest.mark.parametrize("place", ["/usr/local/cuda-12.4", "/usr/local/cuda-12.4/", "/usr/local/cuda-12.4/targets"])
def test_a_place_inside_what_the_doctor_found_is_known(place: str) -> None:
    assert unknown(CUDA_HOME=place) == ()


@pytest.mark.parametrize(
    "place",
    [
        "/usr/local/cuda-12.4/../../tmp/evil",
        "/usr/local/cuda-12.4/..",
        "/usr/local/cuda-12.4-evil",
        "/usr/local",
        "/tmp/evil",
    ],
)
def test_a_place_that_leads_out_of_it_is_not(place: str) -> None:
    """By its words: ``..`` leads out of any folder, whatever the place begins with."""
    assert unknown(CUDA_HOME=place) == (f"CUDA_HOME={place}",)


def test_a_windows_place_that_leads_out_is_not_known_either() -> None:
    machine = Machine(os=Os(system="windows"), toolkits=(Toolkit(kind="cuda", version="12.4", path="C:\\cuda"),))
    for place, strange in (("C:\\cuda\\bin", False), ("C:\\cuda\\..\\evil", True)):
        plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="git", env={"CUDA_PATH": place}))
        assert bool(account_of(plan, machine).unknown) is strange


def test_programs_are_known_by_name_and_version() -> None:
    assert unknown(CC="gcc-12", CXX="g++-12.2") == ()
    assert unknown(CC="gcc-13") == ("CC=gcc-13",)
    assert unknown(CC="/usr/bin/../../tmp/gcc") != ()
