"""Bad input: one line each, before anything long starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import needs
from bare_host import BareHost
from rekindle.build.request import check_inputs, make_order, project_of, same_release
from rekindle.build.tree import TreeState, differences, sources_changed
from rekindle.errors import BadInput, MissingTool
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.programs import find_build_python
from rekindle.toolkits.compilers import find_compilers
from rekindle.toolkits.programs import find_ninja


def plan(**how: Any) -> Plan:
    return Plan(**{"answer": "build", "torch": "2.0.1", "build": BuildRecipe(source="x"), **how})


@pytest.fixture
def tree(tmp_path: Path) -> SourceTree:
    root = tmp_path / "pytorch"
    (root / "torch").mkdir(parents=True)
    (root / "torch/__init__.py").write_text("")
    (root / "setup.py").write_text("")
    (root / "version.txt").write_text("2.0.0a0\n")
    return SourceTree(project="torch", version="2.0.0a0", root=str(root))


def refused(tmp_path: Path, plan: Plan, tree: SourceTree) -> str:
    with pytest.raises(BadInput) as caught:
        check_inputs(plan, tree, Workspace(tmp_path / "ws"))
    assert "\n" not in caught.value.message
    return caught.value.message


def test_plans_that_do_not_fit(tmp_path: Path, tree: SourceTree) -> None:
    assert "nothing to build" in refused(tmp_path, plan(answer="install", build=None), tree)
    assert "is a tree of torch" in refused(tmp_path, plan(project="torchvision"), tree)
    assert "the plan is for torch 2.1.0" in refused(tmp_path, plan(torch="2.1.0"), tree)
    assert check_inputs(plan(), tree, Workspace(tmp_path / "ws")).kind == "setup"


def test_release_tags_say_odd_versions() -> None:
    assert same_release("1.13.1", "1.13.0a0")
    assert not same_release("1.13.1", "1.12.1")
    assert same_release("odd", "odd")


def test_no_tree(tmp_path: Path, tree: SourceTree) -> None:
    gone = SourceTree(project="torch", version="2.0.0", root=str(tmp_path / "gone"))
    assert "no source tree" in refused(tmp_path, plan(), gone)


def test_an_unwritable_workspace(tmp_path: Path, tree: SourceTree) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot write to"):
        check_inputs(plan(), tree, Workspace(tmp_path / "file"))


@needs.posix("rights of POSIX")
def test_a_read_only_source(tmp_path: Path, tree: SourceTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder "build" that is writable does not help: setup.py writes its version beside the sources."""
    (Path(tree.root) / "build").mkdir(exist_ok=True)
    check_inputs(plan(), tree, Workspace(tmp_path / "ws"))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != tree.root and allowed(path, mode))
    with pytest.raises(BadInput, match=f"cannot write to {tree.root}: Permission denied$") as refused:
        check_inputs(plan(), tree, Workspace(tmp_path / "ws"))
    assert "copy the tree" in (refused.value.remedy or "")


def test_nothing_installed() -> None:
    with pytest.raises(MissingTool, match="no C compiler"):
        find_compilers(BareHost(), {})
    with pytest.raises(MissingTool, match="the plan's C compiler gcc-4 is not"):
        find_compilers(BareHost(), {"CC": "gcc-4"})
    with pytest.raises(BadInput, match="is no Ninja"):
        find_ninja(BareHost(), "/nowhere/ninja")
    with pytest.raises(BadInput, match=r"no Python 3\.1"):
        find_build_python(BareHost(), "3.1")


@needs.posix("an embedded Python has no headers")
def test_this_python_is_found_by_path_and_refused_by_another_version() -> None:
    import sys

    assert find_build_python(LiveHost(), sys.executable).version.startswith("3.")
    with pytest.raises(BadInput):
        find_build_python(LiveHost(), "3.99")


def test_requests(tmp_path: Path, tree: SourceTree) -> None:
    with pytest.raises(BadInput, match="no plan at"):
        make_order(BuildOptions(workspace=tmp_path / "ws"))
    (tmp_path / "plan.json").write_bytes(encode(plan()))
    with pytest.raises(BadInput, match="no source tree at"):
        make_order(BuildOptions(plan=tmp_path / "plan.json", workspace=tmp_path / "ws"))
    good = BuildOptions(plan=tmp_path / "plan.json", source=Path(tree.root), workspace=tmp_path / "ws", memory="8G")
    order = make_order(good)
    assert (order.tree.project, order.tree.version, order.options.memory_bytes) == ("torch", "2.0.0a0", 8 << 30)
    for change, words in (
        ({"jobs": 0}, "at least 1"),
        ({"launcher": "magic"}, "no launcher"),
        ({"memory": "x"}, "no size"),
    ):
        with pytest.raises(BadInput, match=words):
            make_order(msgspec.structs.replace(good, **change))
    with pytest.raises(BadInput, match="is no tree of torch"):
        project_of(tmp_path)


def test_the_tree_that_fetch_and_up_made_is_found_without_being_named(tmp_path: Path) -> None:
    """``source fetch`` and ``up`` name it by project and release; of several the plan's release is meant."""
    request = BuildOptions(plan=plan(torch="2.0.1+cu118"), workspace=tmp_path / "ws")
    sources = tmp_path / "ws/source"

    def fetched(name: str) -> None:
        (sources / name / "torch").mkdir(parents=True)
        (sources / name / "torch/__init__.py").write_text("")

    with pytest.raises(BadInput, match=r"there is no source tree at .*torch-2\.0\.1"):
        make_order(request)
    fetched("torch-2.1.0")
    fetched("torch-tools")
    assert Path(make_order(request).tree.root).name == "torch-2.1.0", "the only one: check_inputs says it is another"
    fetched("torch-2.2.0")
    with pytest.raises(BadInput, match=r"holds torch-2\.1\.0, torch-2\.2\.0, none of them torch 2\.0\.1"):
        make_order(request)
    fetched("torch-2.0.1")
    assert Path(make_order(request).tree.root).name == "torch-2.0.1"
    fetched("torch")
    assert Path(make_order(request).tree.root).name == "torch"


def test_changed_files_are_no_other_tree() -> None:
    """Ninja sees which files are newer; that they have changed is told. A tree given by its place has no digest."""
    known = TreeState(project="torch", version="1.13.1", settings={"patch a": "applied"}, source_digest="a" * 64)
    patched = msgspec.structs.replace(known, settings={"patch b": "applied"}, source_digest="b" * 64)
    unknown = msgspec.structs.replace(known, source_digest=None)
    assert differences(known, patched) == differences(known, unknown) == differences(unknown, known) == []
    assert sources_changed(known, patched)
    assert not any(sources_changed(*pair) for pair in ((known, known), (known, unknown), (unknown, known)))


@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("/usr/bin/gcc-12", True),
        ("/usr/bin/gcc-12 -O2", True),
        ("/tmp/gcc", False),
        ("ccache;gcc-12", True),
        ("gcc-12 /tmp/plugin.so", False),
        ("gcc-12 /usr/bin/gcc-12", True),
        ("rm -rf", False),
    ],
)
def test_which_programs_of_a_plan_are_known_here(value: str, known: bool) -> None:
    from rekindle.build.request import _is_program

    assert _is_program(value, [Path("/usr/bin/gcc-12")], {"gcc-12"}) is known
