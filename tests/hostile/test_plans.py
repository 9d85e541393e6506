"""Plans from strangers: shown before anything of them runs; what no build knows is refused whatever one says."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from canary import Canary, in_process, rekindle

from rekindle.errors import BadInput, Untrusted
from rekindle.model.document import decode, encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.version import pin_requirement

TREE = {
    "setup.py": "raise SystemExit('no')\n",
    "torch/__init__.py": "",
    "version.txt": "2.6.0\n",
    "c10/CMakeLists.txt": "",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text, encoding="utf-8")
    return tmp_path


def build(place: Path, recipe: dict[str, Any], *more: str, **fields: Any) -> subprocess.CompletedProcess[str]:
    document = {"schema": 1, "answer": "build", "torch": "2.6.0", "build": {"source": "v2.6.0", **recipe}, **fields}
    (place / "plan.json").write_text(json.dumps(document), encoding="utf-8")
    argv = (
        "build",
        "--plan",
        str(place / "plan.json"),
        "--source",
        str(place / "tree"),
        "--workspace",
        str(place / "ws"),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(place / "data"))
        patch.setattr("sys.stdin", io.StringIO())
        code, said = in_process(*argv, "-q", *more)
    return subprocess.CompletedProcess(argv, code, "", said)


@pytest.mark.parametrize("name", ["CC", "CXX", "CUDAHOSTCXX", "CMAKE_C_COMPILER", "CMAKE_CXX_COMPILER_LAUNCHER"])
def test_a_foreign_plan_runs_no_program_before_a_yes(place: Path, name: str) -> None:
    canary = Canary(place / "canary")
    done = build(place, {"env": {name: str(canary.program)}})
    assert done.returncode == 2, done.stderr
    assert canary.sang == ""
    assert str(canary.program) in done.stderr
    assert "not found here" in done.stderr
    assert "--trust" in done.stderr


def test_the_doctor_runs_nothing_of_a_foreign_plan(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = Canary(place / "canary")
    monkeypatch.setenv("XDG_DATA_HOME", str(place / "data"))
    recipe = BuildRecipe(source="v2.6.0", env={"CC": str(canary.program), "CXX": str(canary.program)})
    (place / "plan.json").write_bytes(encode(Plan(answer="build", torch="2.6.0", build=recipe)))
    code, said = in_process("doctor", "--plan", str(place / "plan.json"), "-q")
    assert code == 2, said
    assert canary.sang == ""


def test_a_foreign_plan_names_no_python_by_path(place: Path) -> None:
    canary = Canary(place / "canary")
    done = build(place, {}, "--trust", python=str(canary.program))
    assert done.returncode == 2
    assert canary.sang == ""
    assert "$.python" in done.stderr


@pytest.mark.parametrize(
    "pins",
    [
        {"numpy": " -r /etc/passwd"}, {"-r": "/etc/passwd"}, {"numpy": " @ file:///tmp/evil"},
        {"numpy": "; python_version>'3'"},
        {"numpy": ">=1 --index-url http://127.0.0.1"}, {"--index-url": "x"}, {"numpy": "[x] @ https://h/x.whl"},
        {"./evil": ""},
        {"numpy": "\n-r /etc/passwd"},
    ],
)  # fmt: skip
def test_pins_are_requirements_and_nothing_else(place: Path, pins: dict[str, str]) -> None:
    done = build(place, {"pins": pins}, "--trust")
    assert done.returncode == 2, done.stderr
    assert "root:" not in done.stdout + done.stderr
    for name, pin in pins.items():
        with pytest.raises(BadInput):
            pin_requirement(name, pin)


@pytest.mark.parametrize(
    "name",
    ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PIP_INDEX_URL", "GIT_SSH_COMMAND",
     "BASH_ENV",
     "ENV", "HOME", "UV_INDEX", "NINJA", "CCACHE_PREFIX", "DYLD_INSERT_LIBRARIES", "SHELL"],
)  # fmt: skip
def test_variables_no_build_knows_are_refused_with_trust_too(place: Path, name: str) -> None:
    done = build(place, {"env": {name: "x"}}, "--trust")
    assert done.returncode == 2
    assert name in done.stderr


@pytest.mark.parametrize("name", ["A=B", "A\nB", "A\0B", "", "A B", "1A"])
def test_a_name_that_is_no_name_is_one_line_and_exit_2(place: Path, name: str) -> None:
    done = build(place, {"env": {name: "x"}}, "--trust")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) <= 2


def test_a_plan_made_here_asks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.host.made import mark_made, was_made_here

    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0"))
    assert not was_made_here(plan)
    mark_made(plan)
    assert was_made_here(decode(encode(plan), Plan))
    changed = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0", env={"CC": "/tmp/evil"}))
    assert not was_made_here(changed)


def test_plan_json_marks_what_it_prints(tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path)}
    done = rekindle("plan", "--gpu", "sm_86", "--build", "--json", env=env)
    code = (
        "import sys\nfrom rekindle.host.made import was_made_here\nfrom rekindle.model.document import decode\n"
        "from rekindle.model.plan import Plan\nmade = decode(sys.stdin.buffer.read(), Plan)\n"
        "sys.exit(0 if was_made_here(made) else 9)"
    )
    asked = subprocess.run([sys.executable, "-c", code], input=done.stdout.encode(), env={**os.environ, **env})
    assert asked.returncode == 0


def test_the_library_asks_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle import api

    monkeypatch.setenv("XDG_DATA_HOME", str(place / "data"))
    (place / "plan.json").write_bytes(encode(Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0"))))
    with pytest.raises(Untrusted):
        api.build(plan=place / "plan.json", source=place / "tree", workspace=place / "ws")


def test_what_the_planner_sets_is_known() -> None:
    import export_plans
    from rekindle.build.request import account_of, check_names
    from rekindle.model.machine import Compiler, Machine, Os

    machine = Machine(
        os=Os(system="linux"), compilers=(Compiler(kind="gcc", version="12.2.0", path="/usr/bin/gcc-12"),)
    )
    for plan in export_plans.ALL.values():
        check_names(plan)
    account = account_of(export_plans.KEPLER_WINDOWS, machine)
    assert [line.partition("=")[0] for line in account.unknown] == ["CUDA_PATH"]
    named = BuildRecipe(source="v2.6.0", env={"CC": "gcc-12", "CXX": "g++-12"})
    assert account_of(Plan(answer="build", build=named), machine).unknown == ()
    # Found by its plain name, since it is the same file: its numbered names are on this machine too, others are not.
    plain = Machine(os=Os(system="linux"), compilers=(Compiler(kind="gcc", version="12.2.0", path="/usr/bin/gcc"),))
    assert account_of(Plan(answer="build", build=named), plain).unknown == ()
    other = BuildRecipe(source="v2.6.0", env={"CC": "gcc-11", "CXX": "clang++-12"})
    assert account_of(Plan(answer="build", build=other), plain).unknown == ("CC=gcc-11", "CXX=clang++-12")
