"""Which tree a source verb means, which release a companion's tree is of, and the page that names a wheelhouse."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.api.page import _base, index_page
from rekindle.api.source import find_tree, patch_spark, source_fetch, source_hipify, source_patch, source_unpatch
from rekindle.errors import BadInput
from rekindle.index.pages.grid import Grid
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import FetchOptions, SourceTree
from rekindle.source import fetch, history, origins
from rekindle.source.fetch import Filling
from rekindle.source.tree import MARKS
from rekindle.spark import unpack
from rekindle.toolkits import programs

TREE = SourceTree(project="torch", version="2.6.0", root="/t")


def test_the_only_tree_of_a_workspace_is_meant(tmp_path: Path) -> None:
    assert find_tree(None) == Path() and find_tree(tmp_path, tmp_path / "w") == tmp_path
    with pytest.raises(BadInput, match="no source tree") as refused:
        find_tree(None, tmp_path)
    assert "source fetch" in (refused.value.remedy or "")
    for name in ("pytorch", "vision"):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "version.txt").touch()
        if name == "pytorch":
            assert find_tree(None, tmp_path) == tmp_path / "source" / "pytorch"
    with pytest.raises(BadInput, match="pytorch, vision") as refused:
        find_tree(None, tmp_path)
    assert "--source" in (refused.value.remedy or "")


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Path]]:
    """What would be fetched, and where to."""
    asked: list[tuple[Any, Path]] = []

    def take(wanted: FetchOptions, where: Path, *, windows: bool, filling: Filling, **_: object) -> SourceTree:
        assert windows is (os.name == "nt")
        asked.append((SimpleNamespace(**msgspec.structs.asdict(wanted), filling=filling), where))
        return TREE

    monkeypatch.setattr(fetch, "fetch", take)
    return asked


def plan_file(folder: Path, torch: str, origin: str = "git") -> Path:
    plan = Plan(answer="build", torch=torch, cuda="12.4", build=BuildRecipe(source="git", origin=origin))
    (folder / "plan.json").write_bytes(encode(plan))
    return folder / "plan.json"


def test_a_plan_decides_the_release_of_torch_and_of_its_companions(
    wanted: list[tuple[Any, Path]], tmp_path: Path
) -> None:
    plan = plan_file(tmp_path, "2.6.0+cu124")
    source_fetch(plan=plan, workspace=tmp_path)
    source_fetch(plan=plan, project="torchvision", workspace=tmp_path)
    source_fetch(plan=plan, release="2.5.1", workspace=tmp_path)
    assert [each.release for each, _ in wanted] == ["2.6.0", "0.21.0", "2.5.1"]
    assert [where.name for _, where in wanted] == ["torch-2.6.0", "torchvision-0.21.0", "torch-2.5.1"]
    assert wanted[0][0].filling.cuda == "12.4" and wanted[0][0].filling.backend == "cuda"
    with pytest.raises(BadInput, match=r"which torchvision belongs to torch 9\.9\.9"):
        source_fetch(plan=plan_file(tmp_path, "9.9.9"), project="torchvision", workspace=tmp_path)


def test_a_companion_is_of_the_commit_that_a_torch_tree_pins_or_of_its_release(
    wanted: list[tuple[Any, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in MARKS["torch"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("2.6.0\n")
    pins = {"torchvision": "c0ffee"}
    monkeypatch.setattr(origins, "pinned_commit", lambda tree, project: pins.get(project))
    told: dict[str, Any] = {"match": tmp_path, "place": "git", "workspace": tmp_path}
    asked = (("torchvision", None), ("torchaudio", None), ("torchvision", "abc"), ("torch", None))
    for project, revision in asked:
        source_fetch(project=project, revision=revision, **told)
    assert [(each.revision, each.release) for each, _ in wanted] == [
        ("c0ffee", None),
        (None, "2.6.0"),
        ("abc", None),
        (None, None),
    ]


def test_nothing_is_patched_by_a_dry_run_or_where_something_does_not_fit(tmp_path: Path) -> None:
    unpack.unpack(tmp_path / "tree")
    lists = tmp_path / "tree" / "CMakeLists.txt"
    before = lists.read_text()
    told: dict[str, Any] = {"only": ["cmake-4-policies"], "given": {"cmake": "4.4.0"}}
    for dry_run, state in ((True, "clean"), (False, "applied")):
        patches = source_patch(tmp_path / "tree", dry_run=dry_run, **told).patches
        assert {patch.id: patch.state for patch in patches}["cmake-4-policies"] == state
        assert (lists.read_text() == before) is dry_run
    assert source_unpatch(tmp_path / "tree").patched == () and lists.read_text() == before
    lists.write_text("nothing is left of it\n")
    assert source_patch(tmp_path / "tree", **told).conflicts and lists.read_text() == "nothing is left of it\n"


def test_the_miniature_has_the_patches_that_its_cmake_needs_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack.unpack(tmp_path / "tree")
    for version, patched in (("4.4.0", True), ("4.4.0", True), ("3.20.0", False)):
        monkeypatch.setattr(programs, "find_cmake", lambda *_, version=version: SimpleNamespace(version=version))
        tree = patch_spark(tmp_path / "tree")
        assert ("cmake-4-policies" in {patch.id for patch in tree.patched}) is patched


def test_the_place_is_the_one_given_then_the_plans(wanted: list[tuple[Any, Path]], tmp_path: Path) -> None:
    plan = plan_file(tmp_path, "2.6.0", origin="debian")
    source_fetch(tmp_path / "here", plan=plan, workspace=tmp_path)
    source_fetch(plan=plan, place="tarball", workspace=tmp_path)
    source_fetch(revision="0123456789abcdef", place="git", workspace=tmp_path)
    assert [each.place for each, _ in wanted] == ["debian", "tarball", "git"]
    assert wanted[0][1] == tmp_path / "here" and wanted[2][1].name == "torch-0123456789ab"
    (tmp_path / "plan.json").write_bytes(encode(Plan(answer="install", torch="2.6.0")))
    source_fetch(plan=tmp_path / "plan.json", workspace=tmp_path)
    source_fetch(workspace=tmp_path)
    assert [each.place for each, _ in wanted[3:]] == [None, None], "a plan to install names no place"
    assert wanted[2][0].filling.cuda is None


def test_hipify_goes_both_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    there = SourceTree(project="torch", version="2.6.0", root="/hip")
    monkeypatch.setattr(history, "hipify", lambda root, **_: there)
    monkeypatch.setattr(history, "undo_hipify", lambda root: TREE)
    assert source_hipify(tmp_path).root == "/hip" and source_hipify(tmp_path, undo=True).root == "/t"


def test_a_page_outside_a_wheelhouse_says_where_its_wheels_lie(tmp_path: Path) -> None:
    assert _base(None) == "" and _base("https://x.example/wheels/") == "https://x.example/wheels/"
    assert _base(str(tmp_path / "a b")) == (tmp_path / "a b").resolve().as_uri() + "/"


def test_a_page_goes_where_it_was_told_or_into_its_wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bases: list[str] = []

    def render(facts: object, grid: object, rows: object, *, base: str) -> tuple[str, int]:
        bases.append(base)
        return "<html>ä", 7

    module = sys.modules["rekindle.api.page"]
    monkeypatch.setattr(module, "plan_grid", lambda gpus, progress: Grid.__new__(Grid))
    monkeypatch.setattr(module, "render_page", render)
    monkeypatch.setattr(module, "load_wheels", lambda root: ("one", "two"))
    monkeypatch.setattr(Grid, "answers", (1, 2, 3), raising=False)
    with pytest.raises(BadInput, match="where should the page go"):
        index_page(root=None, out=None)
    alone = index_page(root=None, out=str(tmp_path / "x.html"))
    assert (alone.path, alone.bytes, alone.gpus, alone.answers, alone.wheels) == (str(tmp_path / "x.html"), 8, 7, 3, 0)
    house = index_page(root=str(tmp_path), out=None)
    assert house.path == str(tmp_path / "index.html") and house.wheels == 2
    index_page(root=str(tmp_path), out=str(tmp_path))
    assert bases == ["", "", tmp_path.resolve().as_uri() + "/"]
    assert api.index_page is index_page
