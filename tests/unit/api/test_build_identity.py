"""What a build says of its source: a tree given by its place is named by commit, digest and patches all the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

import rekindle.spark
from rekindle.api.build_wheels import order_for
from rekindle.api.source import source_patch
from rekindle.host.made import plan_digest
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import decode, encode
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

PLAN = Plan(
    answer="build", project="spark", build=BuildRecipe(source="spark", env={"USE_CUDA": "0", "BUILD_PYTHON": "ON"})
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    return root


def ordered(tree: Path | SourceTree, tmp_path: Path) -> SourceTree:
    return order_for(BuildOptions(plan=PLAN, source=tree, workspace=tmp_path / "w")).tree


def test_the_same_tree_in_two_places_has_one_digest_and_an_edit_another(tree: Path, tmp_path: Path) -> None:
    first = ordered(tree, tmp_path)
    assert first.digest is not None and first.root == str(tree)
    other = tmp_path / "elsewhere" / "with = sign"
    shutil.copytree(tree, other)
    assert ordered(other, tmp_path).digest == first.digest
    with (other / "setup.py").open("a") as file:
        file.write("# edited\n")
    assert ordered(other, tmp_path).digest != first.digest


def test_patches_in_the_tree_are_told(tree: Path, tmp_path: Path) -> None:
    assert ordered(tree, tmp_path).patched == ()
    source_patch(tree, only=["cmake-4-policies"], given={"cmake": "4.4.0"})
    (patch,) = ordered(tree, tmp_path).patched
    assert patch.id == "cmake-4-policies" and patch.sha256


def test_only_a_tree_given_by_its_place_may_be_edited_between_two_runs(tree: Path, tmp_path: Path) -> None:
    own = SourceTree(project="spark", version="0.3.0", root=str(tree))
    for source, editable in ((tree, True), (own, False)):
        order = order_for(BuildOptions(plan=PLAN, source=source, workspace=tmp_path / "w"))
        assert order.editable == editable
    assert ordered(own, tmp_path) == own


def test_a_tree_that_was_fetched_here_is_what_its_own_note_says(tree: Path, tmp_path: Path) -> None:
    noted = SourceTree(project="spark", version="0.3.0", root=str(tree), digest="noted", commit="abc")
    tree.with_name(f"{tree.name}.json").write_bytes(encode(noted))
    order = order_for(BuildOptions(plan=PLAN, source=tree, workspace=tmp_path / "w"))
    assert order.tree == noted and not order.editable


def test_a_tree_whose_version_cannot_be_read_is_still_built(tree: Path, tmp_path: Path) -> None:
    (tree / "version.txt").write_text("no version\n")
    assert ordered(tree, tmp_path).digest is None


def test_a_plan_keeps_its_digest_through_a_statement_that_sorts_it() -> None:
    assert PLAN.build is not None
    turned = msgspec.structs.replace(PLAN.build, env=dict(sorted(PLAN.build.env.items())))
    assert encode(msgspec.structs.replace(PLAN, build=turned)) != encode(PLAN)
    assert plan_digest(msgspec.structs.replace(PLAN, build=turned)) == plan_digest(PLAN)
    assert plan_digest(decode(encode(PLAN), Plan, origin="x")) == plan_digest(PLAN)
    changed = msgspec.structs.replace(PLAN.build, env={**PLAN.build.env, "USE_CUDA": "1"})
    assert plan_digest(msgspec.structs.replace(PLAN, build=changed)) != plan_digest(PLAN)
