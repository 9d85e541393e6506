"""Real builds of the miniature tree: a wheel that installs and imports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import needs
import rekindle.spark
from rekindle.build import BuildOptions, build
from rekindle.host.workspace import Workspace
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

pytestmark = [pytest.mark.integration, needs.tool("g++"), pytest.mark.skipif(sys.platform != "linux", reason="Linux")]

QUICK = {"USE_HEAVY": "0", "SPARK_OPS": "2", "CMAKE_POLICY_VERSION_MINIMUM": "3.5"}


def spark_tree(folder: Path) -> SourceTree:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    return SourceTree(project="spark", version=(root / "version.txt").read_text().strip(), root=str(root))


def spark_plan(**cmake: str) -> Plan:
    recipe = BuildRecipe(source="spark", env={**QUICK, **cmake}, pins={"setuptools": "<74"})
    return Plan(answer="build", project="spark", variant="cpu", python="3.11", build=recipe)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spaces and letters outside ASCII in the path, as people's home directories have them."""
    return tmp_path_factory.mktemp("Wörk bench")


def test_spark_becomes_a_wheel_that_runs(place: Path) -> None:
    workspace = Workspace(place / "ws")
    result = build(spark_plan(), spark_tree(place), workspace, python=sys.executable)
    wheel = Path(result.wheel)
    assert wheel.parent == workspace.wheels
    assert "+rekindle.cpu-cp" in wheel.name
    assert zipfile.ZipFile(wheel).testzip() is None
    kept = json.loads((workspace.wheels / "build.json").read_text())
    assert kept["wheel_sha256"] == result.wheel_sha256
    assert {"environment", "configure", "compile"} <= {phase["name"] for phase in kept["phases"]}
    site = place / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel], check=True)
    said = subprocess.run(
        [sys.executable, "-c", "import spark; print(spark.__version__)"],
        env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True, cwd=place,
    )  # fmt: skip
    assert said.stdout.strip().endswith("+rekindle.cpu")


def test_only_a_target(place: Path) -> None:
    tree = spark_tree(place / "target")
    result = build(
        spark_plan(), tree, Workspace(place / "ws"), python=sys.executable, options=BuildOptions(target="spark_ember")
    )
    assert result.wheel == ""
    assert not list(Path(tree.root).glob("build/lib*/spark/_C*"))
    assert any(Path(tree.root, "build").rglob("libspark_ember.so"))
