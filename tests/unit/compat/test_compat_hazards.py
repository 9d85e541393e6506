"""One rule for hazards: the planner and the look before a build answer alike, and each condition alone decides."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.compat.hazards import Combination, Surroundings, machine_meets, torch_meets
from rekindle.facts import load_facts
from rekindle.host.protocol import Completed
from rekindle.model.arch import Gfx, Sm
from rekindle.model.machine import Machine, Os, Toolkit
from rekindle.model.plan import BuildRecipe, Plan, Wish
from rekindle.plan.candidates import Candidate, hazards_met
from rekindle.plan.question import Question
from rekindle.readiness.programs import judge_compiler
from rekindle.toolkits.compilers import find_compilers
from small_hazards import hazard

MACHINE = Surroundings(
    "linux", "x86_64", "2.41", frozenset({"avx", "avx2"}), (Sm(8, 6), Sm(9, 0)), False, (Gfx("gfx1100"),), True
)
UNKNOWN = Surroundings("linux", "x86_64")


@pytest.mark.parametrize(
    ("condition", "holds", "of_an_unknown_one"),
    [
        ({}, True, True),
        ({"os": ("windows", "linux")}, True, True),
        ({"os": ("windows",)}, False, False),
        ({"arch": ("aarch64", "x86_64")}, True, True),
        ({"arch": ("aarch64",)}, False, False),
        ({"glibc": ">=2.41"}, True, False),
        ({"glibc": ">2.41"}, False, False),
        ({"cpu_lacks": ("avx2", "fma")}, True, False),
        ({"cpu_lacks": ("avx", "avx2")}, False, False),
        ({"sm": "sm_90"}, True, False),
        ({"sm": "sm_80"}, False, False),
        ({"gfx": ("gfx906", "gfx1100")}, True, False),
        ({"gfx": ("gfx906",)}, False, False),
        ({"wsl": True}, True, False),
        ({"wsl": False}, False, True),
        ({"tegra": False}, True, False),
        ({"tegra": True}, False, False),
    ],
)
def test_what_a_hazard_asks_of_a_machine(condition: dict[str, Any], holds: bool, of_an_unknown_one: bool) -> None:
    assert machine_meets(hazard(**condition), MACHINE) is holds
    assert machine_meets(hazard(**condition), UNKNOWN) is of_an_unknown_one


MADE = Combination("2.3.1", "cuda", None, "12.1", None, "3.10", "gcc-12.2", ("/opt/cuda", "/usr"))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ({"torch": "2.3"}, True),
        ({"torch": ">2.3.1"}, False),
        ({"backend": ("rocm", "cuda")}, True),
        ({"backend": ("cpu",)}, False),
        ({"flavour": ("cu121",)}, False),
        ({"cuda": "<=12.1"}, True),
        ({"cuda": "<12.1"}, False),
        ({"rocm": ">=5"}, False),
        ({"python": "3.10"}, True),
        ({"python": "<3.10"}, False),
        ({"spares": ("/usr",)}, False),
        ({"spares": ("/usr/local",)}, True),
        ({"compiler": "gcc"}, True),
        ({"compiler": "clang"}, False),
        ({"compiler": "gcc", "compiler_version": ">=12.2"}, True),
        ({"compiler": "gcc", "compiler_version": ">12.2"}, False),
    ],
)
def test_what_a_hazard_asks_of_a_torch(condition: dict[str, Any], holds: bool) -> None:
    assert torch_meets(hazard(**condition), MADE) is holds


def test_a_wheel_has_a_flavour_and_no_compiler() -> None:
    wheel = Combination("2.3.1", "cuda", "cu121")
    assert torch_meets(hazard(flavour=("cu118", "cu121")), wheel)
    assert not torch_meets(hazard(flavour=("cu118",)), wheel)
    assert not torch_meets(hazard(compiler="gcc"), wheel)
    unnumbered = Combination("2.3.1", "cpu", compiler="gcc")
    assert torch_meets(hazard(compiler="gcc"), unnumbered)
    assert not torch_meets(hazard(compiler="gcc", compiler_version=">=1"), unnumbered)


POSIX = pytest.mark.skipif(os.name != "posix", reason="a Linux toolkit's paths, built with this system's")


class Here(BareHost):
    """A machine with this gcc and this glibc, and the toolkit in this folder."""

    def __init__(self, gcc: str, glibc: str, toolkit: str) -> None:
        super().__init__()
        self.said = {
            "getconf": f"glibc {glibc}",
            "g++": f"g++ (GCC) {gcc}\nCopyright (C) Free Software Foundation, Inc.\n",
        }
        self.said["gcc"] = self.said["g++"]
        self.toolkit = toolkit

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("gcc", "g++") else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return (pattern,) if pattern == f"{self.toolkit}/include/cuda_runtime.h" else ()

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        said = self.said.get(Path(argv[0]).name, "")
        return Completed(argv=tuple(argv), code=0 if said else 1, out=said)


def told_by_the_build(torch: str, cuda: str | None, gcc: str, glibc: str, toolkit: str) -> set[str]:
    env = {"CC": "gcc", "CXX": "g++", "CUDACXX": f"{toolkit}/bin/nvcc"}
    recipe = BuildRecipe(source="torch", env=env, compiler="clang-1")  # another than planned: nothing is judged yet
    plan = Plan(answer="build", torch=torch, cuda=cuda, python="3.11", build=recipe)
    host = Here(gcc, glibc, toolkit)
    compiler = find_compilers(host, env)[1]
    return {check.id for check in judge_compiler(host, plan, compiler)} - {"compiler-version"}


def told_by_the_planner(torch: str, cuda: str | None, gcc: str, glibc: str, toolkit: str) -> set[str]:
    kits = (Toolkit(kind="cuda", version=cuda, path=toolkit),) if cuda else ()
    machine = Machine(os=Os(system="linux", glibc=glibc, arch="x86_64"), toolkits=kits)
    way = Candidate("build", torch, "cuda" if cuda else "cpu", cuda=cuda, python="3.11", compiler=f"gcc-{gcc}")
    found = hazards_met(way, Question(machine, Wish(), load_facts()))
    return {each.id for each in found if each.compiler or each.glibc}


@POSIX
def test_planner_and_build_answer_alike() -> None:
    """Over every shipped hazard of compilers and C libraries, on either side of their limits."""
    torches = ("1.4.1", "1.13.1", "2.1.2", "2.6.0", "2.9.0")
    seen: set[str] = set()
    for torch, cuda, gcc, glibc, toolkit in itertools.product(
        torches, (None, "10.2", "12.4", "13.0"), ("9.4.0", "13.2.0", "15.1.0"), ("2.36", "2.41"), ("/usr", "/opt/cuda")
    ):
        case = (torch, cuda, gcc, glibc, toolkit)
        told = told_by_the_build(*case)
        assert told == told_by_the_planner(*case), case
        seen |= told
    assert {"gcc15-gloo-cstdint", "glibc241-cuda12", "gcc13-dangling-reference"} <= seen


@POSIX
def test_the_distributions_own_toolkit_is_spared_before_a_build_too() -> None:
    """Debian 13: what lies below /usr is a system header, in which nvcc lets the difference pass."""
    assert "glibc241-cuda12" not in told_by_the_build("2.6.0", "12.4", "13.2.0", "2.41", "/usr")
    assert "glibc241-cuda12" in told_by_the_build("2.6.0", "12.4", "13.2.0", "2.41", "/usr/local/cuda")
