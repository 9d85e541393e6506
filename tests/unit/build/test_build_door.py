"""From what was asked for to what is built: which tree, which Pythons, and what a plan from elsewhere may do here."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle.build.request import (
    TREE_FILE,
    account_of,
    admit,
    admit_to_be_checked,
    check_inputs,
    check_names,
    make_order,
    names_places,
    version_of,
)
from rekindle.errors import BadInput, Untrusted
from rekindle.host.made import mark_made
from rekindle.host.workspace import Workspace
from rekindle.model.build import ForeignPlan
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.machine import Compiler, Machine, Os, Python, Toolkit
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

HERE = Machine(
    os=Os(system="linux"),
    toolkits=(Toolkit(kind="cuda", version="12.4"),),
    compilers=(
        Compiler(kind="gcc", version="12.2.0", path="/usr/bin/gcc"),
        Compiler(kind="clang", version="unknown", path="/opt/clang/bin/clang"),
    ),
    pythons=(Python(version="3.11", path="/usr/bin/python3.11"),),
)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def plan(**recipe: Any) -> Plan:
    return Plan(answer="build", torch="2.0.1", build=BuildRecipe(**{"source": "git", **recipe}))


def torch_tree(root: Path, setup: str = "") -> Path:
    (root / "torch").mkdir(parents=True)
    (root / "torch/__init__.py").touch()
    (root / "setup.py").write_text(setup)
    (root / "version.txt").write_text("2.0.0a0\n")
    return root


def order_for(tmp_path: Path, **options: Any) -> Any:
    return make_order(BuildOptions(**{"plan": plan(), "workspace": tmp_path / "ws", **options}))


def test_a_tree_that_is_given_whole_is_taken_as_it_is(tmp_path: Path) -> None:
    tree = SourceTree(project="torch", version="2.0.1", root=str(tmp_path / "nowhere"))
    assert order_for(tmp_path, source=tree).tree == tree


@pytest.mark.parametrize("place", ["inside", "beside", "workspace"])
def test_a_fetched_tree_is_known_by_what_was_written_of_it(place: str, tmp_path: Path) -> None:
    root = torch_tree(tmp_path / "ws" / "source" / "torch")
    tree = SourceTree(project="torch", version="2.0.1", root=str(root), commit="a" * 40)
    files = {"inside": root / TREE_FILE, "beside": root.with_name("torch.json"), "workspace": root.parent / TREE_FILE}
    files[place].write_bytes(encode(tree))
    assert order_for(tmp_path).tree == tree


def test_what_was_written_of_another_tree_is_not_this_ones(tmp_path: Path) -> None:
    root = torch_tree(tmp_path / "ws" / "source" / "torch")
    other = SourceTree(project="torch", version="9.9", root=str(tmp_path / "elsewhere"))
    (root / TREE_FILE).write_bytes(encode(other))
    assert order_for(tmp_path).tree == SourceTree(project="torch", version="2.0.0a0", root=str(root))


def test_a_plan_without_a_release_looks_for_a_tree_of_any(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as refused:
        order_for(tmp_path, plan=msgspec.structs.replace(plan(), torch=None))
    assert refused.value.message == f"there is no source tree at {tmp_path / 'ws' / 'source' / 'torch'}"


def test_pythons_are_those_asked_for_else_the_plans_else_our_own(tmp_path: Path) -> None:
    root = torch_tree(tmp_path / "tree")
    planned = msgspec.structs.replace(plan(), python="3.12")
    assert order_for(tmp_path, source=root, plan=planned).pythons == ("3.12",)
    assert order_for(tmp_path, source=root).pythons == (sys.executable,)
    place = os.path.join("env", "bin", "python")
    asked = order_for(tmp_path, source=root, plan=planned, pythons=("3.10", place)).pythons
    assert asked == ("3.10", str(Path(place).absolute())), "a path from here would lead elsewhere in the tree"


def test_the_order_is_definite(tmp_path: Path) -> None:
    root = torch_tree(tmp_path / "tree")
    order = order_for(tmp_path, source=root, settings=(("MAX_JOBS", "3"),))
    assert order.options.jobs == 3 and not order.editable and order.tree.root == str(root)


def test_a_tree_that_says_nothing_has_version_0(tmp_path: Path) -> None:
    assert version_of(tmp_path) == "0"
    (tmp_path / "version.txt").write_text(" \n")
    assert version_of(tmp_path) == "0"
    (tmp_path / "version.txt").unlink()
    (tmp_path / "setup.py").write_text("from torch.utils import cpp_extension\nsetup(name='x', version='1.2')\n")
    assert version_of(tmp_path) == "1.2"


def checked(tmp_path: Path, plan: Plan, setup: str = "") -> Any:
    root = tmp_path / "tree" if (tmp_path / "tree").is_dir() else torch_tree(tmp_path / "tree", setup)
    tree = SourceTree(project="torch", version="2.0.0a0", root=str(root))
    return check_inputs(plan, tree, Workspace(tmp_path / "ws"))


def test_a_plan_without_a_recipe_and_one_with_another_answer_build_nothing(tmp_path: Path) -> None:
    for wrong in (msgspec.structs.replace(plan(), build=None), msgspec.structs.replace(plan(), answer="install")):
        with pytest.raises(BadInput, match="so there is nothing to build"):
            checked(tmp_path, wrong)


def test_a_tree_without_a_version_fits_any_plan(tmp_path: Path) -> None:
    tree = SourceTree(project="torch", version="", root=str(torch_tree(tmp_path / "tree")))
    assert check_inputs(plan(), tree, Workspace(tmp_path / "ws")).root == tmp_path / "tree"


@pytest.mark.parametrize(("env", "serial"), [({"USE_NINJA": "0"}, False), ({"USE_NINJA": "1"}, True), ({}, True)])
def test_a_tree_that_wants_no_ninja_is_left_alone_where_the_plan_says_so(
    env: dict[str, str], serial: bool, tmp_path: Path
) -> None:
    assert checked(tmp_path, plan(env=env), "BuildExtension.with_options(use_ninja=False)").serial is serial


def test_folders_of_the_workspace_are_made_and_are_refused_by_name(tmp_path: Path) -> None:
    checked(tmp_path, plan())
    assert (tmp_path / "ws/wheels").is_dir() and (tmp_path / "tree/build").is_dir()
    (tmp_path / "ws/wheels").rmdir()
    (tmp_path / "ws/wheels").touch()
    with pytest.raises(BadInput) as refused:
        checked(tmp_path, plan())
    assert refused.value.remedy == "give a writable place with --workspace DIR"


def test_only_names_that_builds_know_pass() -> None:
    check_names(plan(env={"USE_CUDA": "1", "CC": "gcc"}, pins={"numpy": "<2"}))
    check_names(Plan(answer="install"))
    with pytest.raises(BadInput, match="the plan sets LD_PRELOAD, which is no setting of a build"):
        check_names(plan(env={"USE_CUDA": "1", "LD_PRELOAD": "/x.so"}))
    with pytest.raises(BadInput):
        check_names(plan(pins={"numpy": "; rm -rf /"}))


def asked_for(document: Plan, **more: Any) -> ForeignPlan:
    with pytest.raises(Untrusted) as refused:
        admit(document, machine=lambda: HERE, **more)
    assert isinstance(refused.value.account, ForeignPlan)
    return refused.value.account


def never() -> Machine:
    raise AssertionError("the machine is looked at only where there is something to tell")


def test_a_plan_from_elsewhere_is_told_before_anything_is_done() -> None:
    told = asked_for(plan(env={"CC": "gcc"}), signed="by a friend")
    assert told.signed == "by a friend" and told.sets == ("CC=gcc",)
    with pytest.raises(Untrusted, match="the cell was not made here"):
        admit(plan(), machine=lambda: HERE, kind="cell")


def test_a_plan_that_was_made_here_or_is_trusted_passes_unseen() -> None:
    admit(plan(), machine=never, trust=True)
    mark_made(plan())
    admit(plan(), machine=never)
    asked_for(plan(env={"USE_CUDA": "1"}))


def test_of_a_document_that_is_more_than_its_plan_the_document_counts() -> None:
    known, unknown = SourceTree(project="a", version="1", root="/a"), SourceTree(project="b", version="1", root="/b")
    mark_made(plan(), known)
    admit(plan(env={"USE_CUDA": "1"}), machine=never, document=known)
    with pytest.raises(Untrusted):
        admit(plan(), machine=lambda: HERE, document=unknown)


def test_a_name_that_no_build_knows_is_refused_even_where_it_is_trusted() -> None:
    wrong = plan(env={"LD_PRELOAD": "/x.so"})
    mark_made(wrong)
    with pytest.raises(BadInput, match="LD_PRELOAD"):
        admit(wrong, machine=never, trust=True)
    with pytest.raises(BadInput, match="LD_PRELOAD"):
        admit_to_be_checked(wrong, HERE)


def test_a_look_at_the_compilers_runs_only_what_is_known_here() -> None:
    strange = plan(env={"CC": "/tmp/evil"})
    with pytest.raises(BadInput, match=r"names what is not on this machine \(CC=/tmp/evil\); it is not run"):
        admit_to_be_checked(strange, HERE)
    admit_to_be_checked(plan(env={"CC": "/usr/bin/gcc"}), HERE)
    mark_made(strange)
    admit_to_be_checked(strange, HERE)


@pytest.mark.parametrize(
    ("env", "named"),
    [
        ({}, False), ({"CC": "gcc-12", "CXX": "g++-12.2"}, False), ({"CC": "clang", "CXX": "clang++-17"}, False),
        ({"CC": "gcc-12", "CXX": "/tmp/g++"}, True), ({"CC": "icx"}, True), ({"CUDA_HOME": "/usr/local/cuda"}, True),
    ],
)  # fmt: skip
def test_compilers_by_their_plain_names_are_no_places(env: dict[str, str], named: bool) -> None:
    assert names_places(plan(env=env)) is named


def told(**recipe: Any) -> ForeignPlan:
    return account_of(plan(**recipe), HERE)


def test_what_runs_is_fetched_and_set_is_told() -> None:
    env = {"USE_CUDA": "1", "CC": "gcc", "CFLAGS": "-O2"}
    account = told(env=env, cmake={"CMAKE_AR": "/usr/bin/gcc"}, pins={"numpy": "<2"}, source="https://x/y.git")
    assert account.title == "torch 2.0.1" and account.signed == "" and account.unknown == ()
    assert account.runs == ("CC=gcc", "CMAKE_AR=/usr/bin/gcc", "CFLAGS=-O2")
    assert account.fetches == ("https://x/y.git", "numpy<2")
    assert account.sets == ("CC=gcc", "CFLAGS=-O2", "CMAKE_AR=/usr/bin/gcc", "USE_CUDA=1")
    nothing = account_of(Plan(answer="install"), HERE)
    assert (nothing.runs, nothing.fetches, nothing.sets, nothing.unknown) == ((), (), (), ())


@pytest.mark.parametrize(
    ("flags", "plain"), [("-O2 -march=native", True), ("-fplugin=/tmp/x.so", False), ("-O2 @/tmp/x", False), ("", True)]
)
def test_flags_that_name_a_file_are_strange(flags: str, plain: bool) -> None:
    assert any(line.startswith("CFLAGS=") for line in told(env={"CFLAGS": flags}).unknown) is not plain
    assert told(env={"CFLAGS": flags}).runs == (f"CFLAGS={flags}",)


def test_a_flag_with_an_equals_sign_is_read_whole() -> None:
    assert told(env={"CFLAGS": "-std=c++17 -DA=1"}).unknown == ()


@pytest.mark.parametrize(
    ("python", "runs", "strange"),
    [
        (None, False, False), ("3.11", False, False), ("3", False, False), ("/usr/bin/python3.11", True, False),
        ("/tmp/python", True, True), ("python3", True, True),
    ],
)  # fmt: skip
def test_an_interpreter_that_is_named_is_told(python: str | None, runs: bool, strange: bool) -> None:
    account = account_of(plan(), HERE, python=python)
    assert (f"python={python}" in account.runs) is runs
    assert (f"python={python}" in account.unknown) is strange


def test_a_compiler_without_a_number_has_no_other_names() -> None:
    assert told(env={"CC": "clang"}).unknown == ()
    assert told(env={"CC": "clang-unknown"}).unknown == ("CC=clang-unknown",)
    assert told(env={"CC": "gcc-12.2"}).unknown == () and told(env={"CC": "gcc-12.2.0"}).unknown != ()
