"""torchvision and torchaudio in miniature, built against a real torch by a plan for torch."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import needs
import sample_trees
from rekindle.build import build
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
TORCH = Path(os.environ.get("REKINDLE_TEST_TORCH") or CACHE / "rekindle-tests/torch/bin/python")

pytestmark = [
    pytest.mark.integration,
    needs.tool("g++"),
    pytest.mark.skipif(not TORCH.exists(), reason="needs a Python with torch (.ci/prepare/verify.sh makes one)"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that sees that torch, with what setup.py needs: half a gigabyte is not copied for a test."""
    folder = tmp_path_factory.mktemp("companion") / "env"
    subprocess.run([TORCH, "-m", "venv", "--system-site-packages", folder], check=True)
    subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "-U", "setuptools<82", "wheel"], check=True)
    said = subprocess.run(
        [TORCH, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (next(folder.glob("lib/python*/site-packages")) / "torch.pth").write_text(said.stdout)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def torch_version(python: Path) -> str:
    said = subprocess.run(
        [python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True
    )
    return said.stdout.strip().split("+")[0]


def torch_plan(version: str, **more: Any) -> Plan:
    """What the planner writes for torch: its switches must not reach a companion."""
    env = {"USE_CUDA": "0", "BUILD_TEST": "0", "PYTORCH_BUILD_VERSION": f"{version}+cpu", "CXXFLAGS": "-O0"}
    env |= {"TORCHVISION_USE_PNG": "0", "TORCHVISION_USE_JPEG": "0"}  # the miniature has no pictures, CI no libpng
    recipe = BuildRecipe(source="torch", env=env, cmake={"CXX_AVX2_FOUND": "OFF"}, pins={"cmake": ">=3.18"})
    values: dict[str, Any] = {"answer": "build", "torch": version, "variant": "cpu", "build": recipe, **more}
    return Plan(**values)


def make(project: str, folder: Path, torch_version: str) -> SourceTree:
    row = load_facts().release(torch_version)
    assert row is not None, f"no facts about torch {torch_version}"
    version = getattr(row, project)
    root = getattr(sample_trees, project)(folder / project, version)
    return SourceTree(project=project, version=version, root=str(root))


@pytest.mark.parametrize("project", ["torchvision", "torchaudio"])
def test_a_plan_for_torch_builds_its_companions(project: str, python: Path, torch_version: str, tmp_path: Path) -> None:
    tree = make(project, tmp_path, torch_version)
    result = _build(torch_plan(torch_version), tree, tmp_path, python)
    wheel = Path(result.wheel)
    assert wheel.name.startswith(f"{project}-{tree.version}+rekindle.cpu-cp")
    fact = next(fact for fact in result.facts if fact.name == "torch")
    assert fact.ok
    assert torch_version in (fact.found or "")
    assert result.steps == 2, "two objects, by the tokens; setuptools links"
    assert "PYTORCH_BUILD_VERSION" not in result.environment
    with zipfile.ZipFile(wheel) as inside:
        inside.extractall(tmp_path / "site")
    said = subprocess.run(
        [python, "-c", f"import {project}; print('loaded')"], cwd=tmp_path / "site", capture_output=True, text=True
    )
    assert said.stdout.strip() == "loaded", said.stderr
    again = _build(torch_plan(torch_version), tree, tmp_path, python)
    assert again.wheel_sha256 == result.wheel_sha256


def _build(plan: Plan, tree: SourceTree, place: Path, python: Path) -> BuildResult:
    options = BuildOptions(jobs=2, as_is=True)
    return build(plan, tree, Workspace(place / "ws"), python=str(python), options=options)


def test_a_tree_that_belongs_to_another_torch_is_refused(python: Path, tmp_path: Path) -> None:
    tree = make("torchvision", tmp_path, "2.6.0")
    with pytest.raises(BadInput, match=r"the plan is for torch 2.7.1, whose torchvision is 0.22.1, but .* is 0.21.0"):
        _build(torch_plan("2.7.1"), tree, tmp_path, python)


def test_without_a_torch_wheel_it_says_so_before_anything(torch_version: str, tmp_path: Path) -> None:
    tree = make("torchvision", tmp_path, torch_version)
    with pytest.raises(BadInput, match="has no wheel of it for Python"):
        build(torch_plan(torch_version), tree, Workspace(tmp_path / "ws"), python=sys.executable)
