"""What the machine and the plan say about a build, and the patches a plan can already name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.protocol import Completed
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.source.context import choose_for, find_compiler, forecast, from_plan, gather
from rekindle.source.tree import check_wanted, tree_version

ANSWERS = {
    ("cmake", "--version"): "cmake version 4.1.2\n\nCMake suite maintained and supported by Kitware\n",
    ("c++", "--version"): "c++ (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022 Free Software Foundation\n",
    ("clang++", "--version"): "Debian clang version 19.1.7 (3+b1)\nTarget: x86_64-pc-linux-gnu\n",
    ("icpx", "--version"): "Intel(R) oneAPI DPC++/C++ Compiler 2024.1.0 (2024.1.0.20240308)\n",
    ("clang-cl", "--version"): "clang version 18.1.8\nTarget: x86_64-pc-windows-msvc\n",
    ("cl",): "Microsoft (R) C/C++ Optimizing Compiler Version 19.29.30154 for x64\n",
    ("getconf", "GNU_LIBC_VERSION"): "glibc 2.41\n",
    ("nvcc", "--version"): "Cuda compilation tools, release 12.4, V12.4.131\n",
}


class Machine(BareHost):
    """Answers from a table; nothing else is there."""

    def __init__(self, system: str = "linux", env: Mapping[str, str] | None = None, tools: Sequence[str] = ()) -> None:
        super().__init__(system, env)
        self.tools = tools

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if argv[1:2] == ["-c"]:
            held = {"packages": [{"name": "setuptools", "version": "75.1"}], "torch": None}
            return Completed(argv=tuple(argv), code=0, out=json.dumps(held))
        out = ANSWERS.get(tuple(argv))
        return Completed(argv=tuple(argv), code=0 if out else None, out=out or "")

    def which(self, name: str) -> str | None:
        return name if name in self.tools else None

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, Any] | None:
        return {"version": "3.12.3"}

    def read(self, path: str, *, limit: int = 0) -> bytes | None:
        return None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize(
    ("tools", "accelerators"),
    [
        ((), ("none", "none", "cpu")),
        (("nvcc",), ("12.4", "none", "cuda")),
        (("hipcc",), ("none", "6.2", "rocm")),
        (("nvcc", "hipcc"), ("12.4", "6.2", "cuda")),
    ],
)
def test_a_back_end_is_one_whose_compiler_is_here(
    tools: tuple[str, ...], accelerators: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.source.context.hip_release", lambda host, name: "6.2")
    facts = gather(Machine(tools=tools), tmp_path, "2.0.1").facts
    assert tuple(facts[name] for name in ("cuda", "rocm", "backend")) == accelerators


def test_the_tools_of_this_machine(tmp_path: Path) -> None:
    facts = gather(Machine(tools=("python3", "nvcc")), tmp_path, "2.0.1").facts
    assert facts["cmake"] == "4.1.2" and facts["compiler"] == "gcc 12.2.0" and facts["glibc"] == "2.41"
    assert facts["python"] == "3.12.3" and facts["setuptools"] == "75.1" and facts["numpy"] is None
    assert (facts["cuda"], facts["rocm"], facts["backend"], facts["arch"]) == ("12.4", "none", "cuda", "x86_64")
    nothing = gather(Machine(system="windows"), tmp_path, "2.0.1").facts
    assert nothing["cmake"] is not None and nothing["glibc"] == "none"
    # Where the installer left PATH alone, the Python that runs us is meant.
    assert nothing["setuptools"] == "75.1"
    assert "setuptools" not in gather(Machine(), tmp_path, "2.0.1").facts


@pytest.mark.parametrize(
    ("system", "cxx", "found"),
    [
        ("linux", None, "gcc 12.2.0"),
        ("linux", "clang++", "clang 19.1.7"),
        ("linux", "icpx", "icx 2024.1.0"),
        ("windows", "clang-cl", "clang-cl 18.1.8"),
        ("windows", None, "msvc 19.29.30154"),
        ("linux", "nosuch", None),
    ],
)
def test_compilers(system: str, cxx: str | None, found: str | None) -> None:
    assert find_compiler(Machine(system, {"CXX": cxx} if cxx else {})) == found


def plan(torch: str, **build: Any) -> Plan:
    return Plan(answer="build", torch=torch, build=BuildRecipe(source="git", **build))


def test_a_plan_fixes_the_tools() -> None:
    facts = from_plan(
        plan("2.0.1+cu118", compiler="gcc-11.4", pins={"setuptools": "<74", "numpy": "==1.26.4", "cmake": ">=3.18,<4"})
    )
    assert facts["compiler"] == "gcc 11.4" and facts["setuptools"] == "73.999" and facts["numpy"] == "1.26.4"
    assert facts["cmake"] == "3.999" and (facts["cuda"], facts["backend"]) == ("none", "cpu")
    amd = from_plan(msgspec.structs.replace(plan("2.6.0"), rocm="6.4"))
    assert (amd["cuda"], amd["rocm"], amd["backend"]) == ("none", "6.4", "rocm")
    open_ended = from_plan(plan("2.6.0", pins={"numpy": ">=1.26"}, env={"CMAKE_POLICY_VERSION_MINIMUM": "3.5"}))
    assert "numpy" not in open_ended and open_ended["policy-minimum"] == "3.5"


def test_what_a_plan_can_already_name() -> None:
    windows = plan("1.13.1", compiler="clang-cl-18", pins={"setuptools": "<83", "numpy": "<2", "cmake": "<4"})
    assert set(forecast(windows, system="windows")) == {
        "functorch-clz",
        "pkg-resources-packaging",
        "static-runtime-anonymous-export",
        "vc-env-setuptools74",
    }
    # flatbuffers hangs on the submodule: nobody can tell before there is a tree.
    linux = plan("2.0.1", compiler="gcc-14.2", pins={"setuptools": "<60", "numpy": "<2", "cmake": "<4"})
    assert forecast(linux, system="linux", arch="x86_64") == ("gcc13-missing-includes",)


def test_wrong_release_and_unknown_patch(tree: Path) -> None:
    project, version = tree_version(tree)
    assert (project, version) == ("torch", "1.13.0")
    check_wanted(tree, version, "1.13.1+cu117")
    with pytest.raises(BadInput, match=r"2\.0\.1 is wanted"):
        check_wanted(tree, version, "2.0.1")
    context = gather(Machine(), tree, version)
    with pytest.raises(BadInput, match="no patch 'functorch-cls'") as error:
        choose_for(tree, project, context, only=["functorch-cls"])
    assert error.value.remedy == "did you mean functorch-clz?"
    with pytest.raises(BadInput, match="not a directory of patches"):
        choose_for(tree, project, context, folder=tree / "none")


def test_what_the_plan_does_not_say_stays_as_the_machine_says_it(tmp_path: Path) -> None:
    host, plan = Machine(tools=("python3", "nvcc")), Plan(answer="build", build=BuildRecipe(source="x"))
    alone = gather(host, tmp_path, "2.0.1").facts
    beside = gather(host, tmp_path, "2.0.1", plan=plan).facts
    said = {key: value for key, value in from_plan(plan).items() if value is not None}
    assert beside == {**alone, **said}
