"""The compiler that is really here, against the plan and what is known to go wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.host.protocol import Completed
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.programs import judge_compiler
from rekindle.readiness.register import check_build
from rekindle.toolkits.compilers import find_compilers
from rekindle.toolkits.libraries import find_libc


class Machine(BareHost):
    """A machine whose ``g++`` says this of itself."""

    def __init__(self, banner: str, glibc: str = "glibc 2.36") -> None:
        super().__init__()
        self.banner, self.glibc = banner, glibc

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in ("gcc", "g++", "cc", "c++") else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        said = {"getconf": self.glibc, "g++": self.banner, "gcc": self.banner}.get(Path(argv[0]).name)
        return Completed(argv=tuple(argv), code=0 if said else 1, out=said or "")


def gcc(version: str) -> str:
    return f"g++ (Debian {version}-1) {version}\nCopyright (C) 2022 Free Software Foundation, Inc.\n"


def asked(host: Machine, compiler: str = "gcc-12.2.0", **more: Any) -> dict[str, Check]:
    recipe = {"source": "torch", "env": {"CC": "gcc", "CXX": "g++"}, "compiler": compiler, **more.pop("recipe", {})}
    told = {"answer": "build", "torch": "2.6.0", "python": "3.11", **more}
    plan = Plan(**told, build=BuildRecipe(**recipe))
    _, cxx = find_compilers(host, recipe["env"])
    return {check.id: check for check in judge_compiler(host, plan, cxx)}


def test_the_planned_one() -> None:
    assert asked(Machine(gcc("12.2.0"))) == {}
    assert asked(Machine(gcc("12.4.1"))) == {}, "the last number changes nothing"


@pytest.mark.parametrize("version", ["11.4.0", "13.2.0"])
def test_another_one_is_told(version: str) -> None:
    check = asked(Machine(gcc(version)))["compiler-version"]
    assert check.status == "warn" and f"is gcc {version}" in (check.found or "")
    assert "the plan is for gcc-12.2.0" in (check.found or "")


def test_another_kind_is_told() -> None:
    found = asked(Machine("Debian clang version 12.0.1\n"))
    assert "is clang 12.0.1" in (found["compiler-version"].found or "")


def test_one_that_is_known_to_break_this_release_is_refused() -> None:
    """gcc 15 in the place of a planned gcc 12: gloo of 2.6.0 does not compile with it."""
    assert "gcc15-gloo-cstdint" not in asked(Machine(gcc("14.2.0")))
    check = asked(Machine(gcc("15.1.0")))["gcc15-gloo-cstdint"]
    assert check.status == "fail"
    line, _, remark = (check.fix or "").partition("   # ")
    assert line == "rekindle plan --build --torch 2.6.0 --json > plan.json"
    assert "gcc 14" in remark
    cured = asked(Machine(gcc("15.1.0")), recipe={"patches": ("gloo-cstdint",)})
    assert "gcc15-gloo-cstdint" not in cured, "the plan's patch takes it away"
    assert "gcc15-gloo-cstdint" not in asked(Machine(gcc("15.1.0")), torch="2.9.0"), "fixed in those sources"
    assert "gcc15-gloo-cstdint" not in asked(Machine(gcc("15.1.0")), "gcc-15.1.0"), "the planner has judged it"
    other = asked(Machine(gcc("15.1.0")), project="torchvision")
    assert list(other) == ["compiler-version"], "what torch's own sources break on is not asked of an extension"
    assert list(asked(Machine(gcc("15.1.0")), torch=None)) == ["compiler-version"]


@pytest.mark.parametrize(
    ("glibc", "cuda", "broken"),
    [("2.40", "12.4", False), ("2.41", "12.4", True), ("2.41", "13.0", False), ("2.41", None, False)],
)
def test_nvcc_against_the_c_library(glibc: str, cuda: str | None, broken: bool) -> None:
    """A plan made for an older system: the headers of CUDA 12 do not compile with glibc 2.41."""
    found = asked(Machine(gcc("12.2.0"), f"glibc {glibc}"), cuda=cuda)
    assert ("glibc241-cuda12" in found) is broken


class Packaged(Machine):
    """nvcc below ``home``, its headers too."""

    home = "/usr"

    def which(self, name: str) -> str | None:
        return f"{self.home}/bin/nvcc" if name == "nvcc" else super().which(name)

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(
            file for file in (f"{self.home}/bin/nvcc", f"{self.home}/include/cuda_runtime.h") if file == pattern
        )


@pytest.mark.parametrize(("home", "broken"), [("/usr", False), ("/usr/local/cuda", True), ("/opt/x", True)])
@needs.posix()
def test_headers_below_usr_are_spared(home: str, broken: bool) -> None:
    host = Packaged(gcc("12.2.0"), "glibc 2.41")
    host.home = home
    assert ("glibc241-cuda12" in asked(host, cuda="12.4")) is broken


def test_what_settings_take_away_is_not_told_twice() -> None:
    found = asked(Machine(gcc("13.2.0")), torch="1.13.1")
    assert found["gcc13-dangling-reference"].status == "warn"
    env = {"CXX": "g++", "CXXFLAGS": "-g -Wno-error=dangling-reference"}
    assert "gcc13-dangling-reference" not in asked(Machine(gcc("13.2.0")), torch="1.13.1", recipe={"env": env})


def test_a_system_without_glibc_says_nothing() -> None:
    assert find_libc(Machine("", ""))[1] is None
    assert find_libc(Machine("", "musl 1.2"))[1] is None
    assert find_libc(Machine("", "glibc 2.36\n")) == ("glibc", "2.36")


def test_it_is_asked_of_every_build(tmp_path: Path) -> None:
    recipe = BuildRecipe(source="torch", env={"CC": "gcc", "CXX": "g++"}, compiler="gcc-12.2.0")
    plan = Plan(answer="build", torch="2.6.0", build=recipe)
    checks = check_build(Machine(gcc("15.1.0")), PlannedBuild(plan=plan, python="3.99", place=tmp_path))
    assert {"compiler", "compiler-version", "gcc15-gloo-cstdint"} <= {check.id for check in checks}
