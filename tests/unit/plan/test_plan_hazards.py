"""Which known hazards a candidate meets on a machine."""

from __future__ import annotations

from typing import Any

import pytest
from planning import ask, build, plan, wheel

from rekindle.compat.hazards import machine_meets, torch_meets
from rekindle.model.facts import Hazard
from rekindle.plan.candidates import Candidate, _make_combination, is_cured
from rekindle.plan.question import Question
from small_hazards import hazard


def applies(given: Hazard, candidate: Candidate, question: Question) -> bool:
    return torch_meets(given, _make_combination(candidate, question))


BUILD = build("2.3.1", cuda="12.1", compiler="gcc-12.2")


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({}, True),
        ({"torch": ">=2.3"}, True),
        ({"torch": ">2.3.1"}, False),
        ({"backend": ("cuda",)}, True),
        ({"backend": ("rocm", "cpu")}, False),
        ({"flavour": ("cu121",)}, False),
        ({"cuda": "12.1"}, True),
        ({"cuda": ">=12.2"}, False),
        ({"rocm": ">=5"}, False),
        ({"python": "3.10"}, True),
        ({"python": ">=3.11"}, False),
        ({"compiler": "gcc"}, True),
        ({"compiler": "clang"}, False),
        ({"compiler": "gcc", "compiler_version": ">=12"}, True),
        ({"compiler": "gcc", "compiler_version": ">=13"}, False),
    ],
)
def test_what_of_a_candidate_a_hazard_asks_for(condition: dict[str, Any], holds: bool) -> None:
    assert applies(hazard(**condition), BUILD, ask("sm_86")) is holds


def test_a_hazard_of_a_compiler_needs_one_and_of_a_flavour_a_wheel() -> None:
    assert not applies(hazard(compiler="gcc"), build("2.3.1", cuda="12.1"), ask("sm_86"))
    bare = build("2.3.1", cuda="12.1", compiler="gcc")
    assert applies(hazard(compiler="gcc"), bare, ask("sm_86"))
    assert not applies(hazard(compiler="gcc", compiler_version=">=12"), bare, ask("sm_86"))
    assert applies(hazard(flavour=("cu126",)), wheel("2.7.1", "cu126"), ask("sm_86"))
    assert not applies(hazard(flavour=("cu118",)), wheel("2.7.1", "cu126"), ask("sm_86"))


@pytest.mark.parametrize(
    ("condition", "flags", "holds"),
    [
        ({"os": ("linux",)}, {}, True),
        ({"os": ("windows",)}, {}, False),
        ({"arch": ("x86_64",)}, {}, True),
        ({"arch": ("aarch64",)}, {}, False),
        ({"glibc": ">=2.41"}, {"glibc": "2.41"}, True),
        ({"glibc": ">=2.41"}, {"glibc": "2.40"}, False),
        ({"glibc": ">=2.41"}, {}, False),
        ({"cpu_lacks": ("avx2",)}, {"cpu": "ivybridge"}, True),
        ({"cpu_lacks": ("avx2",)}, {"cpu": "haswell"}, False),
        ({"cpu_lacks": ("avx2",)}, {}, False),
        ({"sm": "sm_86"}, {}, True),
        ({"sm": "sm_90"}, {}, False),
        ({"tegra": False}, {}, True),
        ({"tegra": True}, {}, False),
    ],
)
def test_what_of_a_machine_a_hazard_asks_for(condition: dict[str, Any], flags: dict[str, Any], holds: bool) -> None:
    assert machine_meets(hazard(**condition), ask("sm_86", **flags).surroundings) is holds


def test_only_what_breaks_is_cured_and_only_by_a_patch() -> None:
    assert is_cured(hazard(patch="p")) and not is_cured(hazard()) and not is_cured(hazard(patch="p", effect="warns"))


@pytest.mark.parametrize(("asked", "runs"), [("2.10.0", "2.11.0"), ("2.4.0", "2.4.1")])
def test_an_arm_cpu_without_lse_gets_the_next_release_that_starts(asked: str, runs: str) -> None:
    old = plan(cpu="cortex-a72", arch="aarch64", torch=asked)
    assert (old.answer, old.torch, old.as_asked) == ("install", runs, False)
    assert any("LSE atomics" in (change.why or "") for change in old.changes)
    assert plan(cpu="cortex-a76", arch="aarch64", torch=asked).torch == asked
    assert plan(arch="aarch64", torch=asked).torch == asked  # nothing is known of the CPU


def test_what_x86_lacks_is_not_asked_of_arm() -> None:
    assert plan(cpu="cortex-a72", arch="aarch64", torch="2.1.0").torch == "2.1.0"
    assert not ask(cpu="cortex-a72", arch="aarch64").cpu_lacks(("avx2",))
