"""Every document that leads to a build passes one door: nothing it names runs before a yes, no path goes round."""

from __future__ import annotations

import ast
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from canary import Canary, in_process

import rekindle
from rekindle import api
from rekindle.build import request
from rekindle.errors import Untrusted
from rekindle.formats.statement import IN_TOTO, seal
from rekindle.host.keys import new_key, read_private
from rekindle.host.made import was_made_here
from rekindle.model.build import ForeignPlan
from rekindle.model.document import encode, load
from rekindle.model.machine import Compiler, Machine, Os, Toolkit
from rekindle.model.matrix import MatrixLock
from rekindle.model.plan import BuildRecipe, Plan

SETTINGS = {"USE_HEAVY": "0", "USE_CUDA": "0", "SPARK_OPS": "1", "USE_DISPATCH": "0"}
SHA = "ab" * 32


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    monkeypatch.setattr("sys.stdin", io.StringIO())


def hostile_recipes(canary: Canary) -> dict[str, dict[str, Any]]:
    run = str(canary.program)
    return {
        "linker launcher": {"cmake": {"CMAKE_CXX_LINKER_LAUNCHER": f"/bin/sh;-c;{run}"}},
        "compiler": {"env": {"CC": run, "CXX": run}},
        "compiler's rule": {"cmake": {"CMAKE_CXX_COMPILE_OBJECT": f"{run} <SOURCE>"}},
        "tidy": {"cmake": {"CMAKE_CXX_CLANG_TIDY": run}},
    }


def statement(recipe: dict[str, Any]) -> dict[str, Any]:
    env = {**SETTINGS, **recipe.get("env", {})}
    plan = Plan(
        answer="build", project="spark", variant="cpu",
        build=BuildRecipe(source="spark", env=env, cmake=recipe.get("cmake", {})),
    )  # fmt: skip
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "spark_miniature-1.0-cp311-cp311-linux_x86_64.whl", "digest": {"sha256": SHA}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "rekindle/build/v1", "internalParameters": {"plan": json.loads(encode(plan))},
            }
        },
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["linker launcher", "compiler", "compiler's rule", "tidy"])
def test_a_statement_runs_nothing_before_a_yes(tmp_path: Path, kind: str) -> None:
    canary = Canary(tmp_path / "canary")
    file = tmp_path / "spark.whl.intoto.json"
    file.write_text(json.dumps(statement(hostile_recipes(canary)[kind])), encoding="utf-8")
    code, said = in_process("rebuild", str(file), "--workspace", str(tmp_path / "w"), "-q")
    assert code == 2, said
    assert canary.sang == ""
    assert str(canary.program) in said and "nobody signed it" in said and "--trust" in said
    assert not (tmp_path / "w").exists()


def test_it_is_told_who_signed_the_statement(tmp_path: Path) -> None:
    canary = Canary(tmp_path / "canary")
    raw = json.dumps(statement(hostile_recipes(canary)["compiler"])).encode()
    new_key("friend", tmp_path / "keys")
    new_key("stranger", tmp_path / "elsewhere")
    said = {}
    for name, folder in (("friend", "keys"), ("stranger", "elsewhere")):
        key = read_private(name, tmp_path / folder)
        file = tmp_path / f"{name}.intoto.dsse.json"
        file.write_bytes(seal(IN_TOTO, raw, key.id, key.sign))
        with pytest.raises(Untrusted) as caught:
            api.rebuild(file, workspace=tmp_path / "w")
        account = caught.value.account
        assert isinstance(account, ForeignPlan)
        said[name] = account.signed
    assert said["friend"] == "by friend, whose key is believed here"
    assert said["stranger"].startswith("by no key that is believed here (it says ed25519:")
    assert canary.sang == ""


def table(folder: Path, settings: str = "") -> Path:
    file = folder / "matrix.toml"
    axes = f'[axes]\npython = ["{sys.version_info.major}.{sys.version_info.minor}"]\n'
    file.write_text(f'project = "spark"\n{axes}[defaults]\nprove = "none"\n{settings}', encoding="utf-8")
    return file


def test_a_table_that_names_programs_is_asked_about(tmp_path: Path) -> None:
    canary = Canary(tmp_path / "canary")
    file = table(tmp_path, f'settings = {{ CMAKE_CXX_COMPILER = "{canary.program}" }}\n')
    assert in_process("matrix", "plan", str(file), "-q")[0] == 0
    for step in ("run", "slurm"):
        code, said = in_process("matrix", step, str(file), "-q")
        assert code == 2 and str(canary.program) in said and "--trust" in said, said
    assert canary.sang == ""


def test_a_plain_table_of_ones_own_asks_nothing(tmp_path: Path) -> None:
    lock = api.matrix_plan(table(tmp_path, 'settings = { SPARK_OPS = "1" }\n'))
    assert lock.cells and all(map(was_made_here, lock.cells))
    assert "--trust" in api.matrix_slurm(tmp_path / "matrix.toml").text


@pytest.mark.parametrize("what", ["python", "plan", "source"])
def test_a_lock_or_a_cell_from_elsewhere_is_asked_about(tmp_path: Path, what: str) -> None:
    canary = Canary(tmp_path / "canary")
    api.matrix_plan(table(tmp_path))
    file = tmp_path / "matrix.lock"
    lock = json.loads(file.read_bytes())
    for cell in lock["cells"]:
        if what == "python":
            cell["python"] = str(canary.program)
        elif what == "plan":
            cell["plan"]["build"]["env"]["CXX"] = str(canary.program)
        else:
            cell["source"] = str(tmp_path)
    file.write_text(json.dumps(lock), encoding="utf-8")
    with pytest.raises(Untrusted):
        api.matrix_run(tmp_path / "matrix.toml")
    cell = load(file, MatrixLock).cells[0]
    place = tmp_path / "root" / "cells" / cell.id
    place.mkdir(parents=True)
    (place / "cell.json").write_bytes(encode(cell))
    code, said = in_process("matrix", "cell", cell.id, "--root", str(tmp_path / "root"), "-q")
    assert code == 2 and "--trust" in said, said
    assert not (place / "state.json").exists()
    assert canary.sang == ""


def test_a_plan_for_a_machines_file_is_not_ones_own_where_it_names_places(tmp_path: Path) -> None:
    plain = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0", env={"USE_CUDA": "0"}))
    placed = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0", env={"CUDA_HOME": "/opt/evil"}))
    api.remember_plan(placed, other_machine=True)
    assert not was_made_here(placed)
    api.remember_plan(placed)
    assert was_made_here(placed)
    api.remember_plan(plain, other_machine=True)
    assert was_made_here(plain)
    named = Plan(
        answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0", env={"CC": "gcc-12", "CXX": "g++-12"})
    )
    api.remember_plan(named, other_machine=True)
    assert was_made_here(named)


def test_plan_says_that_its_machine_came_in_a_file(tmp_path: Path) -> None:
    machine = {
        "schema": 1, "os": {"system": "linux", "arch": "x86_64", "glibc": "2.35", "distro": "ubuntu 22.04"},
        "gpus": [{"vendor": "nvidia", "name": "Tesla K40c", "arch": "sm_35", "how": "given"}],
        "compilers": [{"kind": "gcc", "version": "9.4.0", "path": str(tmp_path / "evil" / "gcc")}],
        "toolkits": [{"kind": "cuda", "version": "11.4.4", "path": str(tmp_path / "evil")}],
    }  # fmt: skip
    (tmp_path / "machine.json").write_text(json.dumps(machine), encoding="utf-8")
    code, said = in_process("plan", "--machine", str(tmp_path / "machine.json"), "--build", "--json", "-q")
    assert code == 0, said
    (tmp_path / "plan.json").write_text(said, encoding="utf-8")
    plan = load(tmp_path / "plan.json", Plan)
    assert plan.build
    assert was_made_here(plan) is not any(str(tmp_path) in value for value in plan.build.env.values())


MACHINE = Machine(os=Os(system="linux"), compilers=(Compiler(kind="gcc", version="12.2.0", path="/usr/bin/gcc-12"),))


@pytest.mark.parametrize(
    ("name", "value", "known"),
    [
        ("CC", "gcc-12", True), ("CC", "ccache gcc-12", True), ("CC", "ccache gcc-12 -m64", True),
        ("CC", "ccache sh -c x", False), ("CC", "gcc-12;sh;-c;x", False), ("CC", "sh", False),
        ("CC", "./gcc-12", False), ("CC", "/usr/bin/../../x", False),
        ("CXXFLAGS", "-O2 -march=native -DX=1 -Wno-error -fPIC", True), ("CXXFLAGS", "-fplugin=x.so", False),
        ("CXXFLAGS", "-B.", False), ("CXXFLAGS", "@more", False), ("LDFLAGS", "-Wl,-dynamic-linker=x", False),
        ("CXXFLAGS", "-wrapper sh,-c,x", False), ("CXXFLAGS", "-specs=x", False),
    ],
)  # fmt: skip
def test_what_the_doctor_may_run_of_a_foreign_plan(name: str, value: str, known: bool) -> None:
    plan = Plan(answer="build", build=BuildRecipe(source="v2.6.0", env={name: value}))
    assert (request.account_of(plan, MACHINE).unknown == ()) is known


@pytest.mark.parametrize(
    ("place", "known"),
    [("/opt/cuda", True), ("/opt/cuda/bin", True), ("/opt/cuda/../evil", False), ("/opt/cuda2", False)],
)
def test_a_place_counts_as_found_only_below_what_was_found(place: str, known: bool) -> None:
    machine = Machine(os=Os(system="linux"), toolkits=(Toolkit(kind="cuda", version="12.8", path="/opt/cuda"),))
    plan = Plan(answer="build", build=BuildRecipe(source="v2.6.0", env={"CUDA_HOME": place}))
    assert (request.account_of(plan, machine).unknown == ()) is known


def calls_in(tree: ast.AST) -> set[str]:
    names = (call.func for call in ast.walk(tree) if isinstance(call, ast.Call))
    return {name.id if isinstance(name, ast.Name) else getattr(name, "attr", "") for name in names}


def test_only_one_function_reaches_the_engine_and_it_asks_first() -> None:
    """Who imports the engine: api/build_wheels.py alone, in one function whose first call is the door."""
    root = Path(rekindle.__file__).parent
    importers: dict[str, list[str]] = {}
    for file in root.rglob("*.py"):
        place = file.relative_to(root).as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {alias.name for alias in node.names}
                by_room = node.module == "rekindle.build" and names & {"build", "engine"}
                if by_room or node.module == "rekindle.build.engine":
                    importers.setdefault(place, []).append(node.module or "")
            elif isinstance(node, ast.Import) and any(alias.name.startswith("rekindle.build") for alias in node.names):
                importers.setdefault(place, []).append("import")
    assert importers == {"api/build_wheels.py": ["rekindle.build"], "build/__init__.py": ["rekindle.build.engine"]}
    tree = ast.parse((root / "api" / "build_wheels.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    (runner,) = [each for each in functions if "rekindle.build import build" in ast.unparse(each)]
    statements = [node for node in runner.body if not isinstance(node, ast.ImportFrom | ast.Expr | ast.Assert)]
    door = next(node for node in runner.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
    assert calls_in(door) == {"admit_here"}
    assert runner.body.index(door) < runner.body.index(statements[0])


def test_trust_is_given_only_behind_the_door() -> None:
    """``trust=True`` stands where a statement, a cell or a yes was admitted before, and nowhere else."""
    root = Path(rekindle.__file__).parent
    places = {
        file.relative_to(root).as_posix()
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "trust"
        and isinstance(node.value, ast.Constant) and node.value.value is True
    }  # fmt: skip
    assert places == {"api/rebuild_wheel.py", "journey/matrix_work.py"}
