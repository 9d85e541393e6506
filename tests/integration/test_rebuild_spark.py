"""A build repeated from its own statement, somewhere else: the same bytes, or the first that differs."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import needs
import rekindle.spark
from rekindle import api
from rekindle.api.source import patch_spark
from rekindle.errors import BadInput
from rekindle.model.build import BuildResults
from rekindle.model.plan import BuildRecipe, Plan

pytestmark = [
    pytest.mark.integration,
    needs.tool("g++"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]
SETTINGS = {"USE_HEAVY": "0", "USE_CUDA": "0", "SPARK_OPS": "1", "USE_DISPATCH": "0"}


def tree(folder: Path) -> Path:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    patch_spark(root)
    return root


@pytest.fixture(scope="module")
def statement(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("first")
    plan = Plan(answer="build", project="spark", variant="cpu", build=BuildRecipe(source="spark", env=SETTINGS))
    done = api.build(
        plan=plan, source=tree(place), workspace=place / "w", jobs=1, pythons=(sys.executable,), as_is=True
    )
    assert isinstance(done, BuildResults), done
    return Path(done.results[0].provenance or "")


def test_it_is_identical_in_a_place_with_an_odd_name(statement: Path, tmp_path: Path) -> None:
    """The miniature's own source; settings that the statement holds in another order than the plan did."""
    found = api.rebuild(statement, workspace=tmp_path / "ein ört=lichkeit")
    assert (found.verdict, found.rule, found.difference) == ("identical", None, None)
    assert found.sha256 == found.claimed


def test_another_source_is_refused_before_anything_is_built(statement: Path, tmp_path: Path) -> None:
    other = tree(tmp_path)
    with (other / "spark" / "csrc" / "core" / "checksum.cpp").open("a") as file:
        file.write("int spark_more() { return 1; }\n")
    with pytest.raises(BadInput, match="the statement was made from"):
        api.rebuild(statement, source=other, workspace=tmp_path / "w")
    assert not (tmp_path / "w" / "wheels").exists()
