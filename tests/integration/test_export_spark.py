"""The exported ``.sh`` of spark, run by a plain shell: it fetches its tools, patches the tree and builds the wheel."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import needs
from rekindle import api
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.spark.unpack import tree_version, unpack

pytestmark = [pytest.mark.integration, pytest.mark.network, needs.tool("g++", "git")]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def _plan(**recipe: object) -> Plan:
    base: dict[str, object] = {
        "source": "spark", "env": {"USE_CUDA": "0"}, "asserts": {"USE_CUDA": "OFF", "CMAKE_BUILD_TYPE": "Release"},
        "patches": ("cmake-4-policies", "setuptools-74-msvccompiler"), "disk_gib": 1, "memory_gib": 1,
    }  # fmt: skip
    return Plan(
        answer="build", project="spark", torch=tree_version(), variant="cpu", python=HERE,
        build=BuildRecipe(**{**base, **recipe}),  # type: ignore[arg-type]
    )  # fmt: skip


def _run(folder: Path, plan: Plan, source: Path) -> subprocess.CompletedProcess[str]:
    exported = api.export(plan, "sh", out=folder)
    return subprocess.run(
        ["sh", str(exported.path)],
        cwd=folder,
        env={
            **{k: v for k, v in __import__("os").environ.items() if k in ("PATH", "HOME") or k.startswith("PIP_")},
            "SOURCE": str(source), "WORK": str(folder / "work here"), "PYTHON": sys.executable,
        },
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def test_spark_is_built_by_its_script_and_a_second_run_is_quiet(tmp_path: Path) -> None:
    folder = tmp_path / "ein ort"
    folder.mkdir()
    unpack(folder / "tree")
    done = _run(folder, _plan(), folder / "tree")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    wheel = next((folder / "work here" / "wheels").glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".so") for name in archive.namelist())
    assert "cmake-4-policies.patch applied" in done.stdout
    again = _run(folder, _plan(), folder / "tree")
    assert again.returncode == 0 and "cmake-4-policies.patch is applied already" in again.stdout

    lying = _run(folder, _plan(asserts={"USE_CUDA": "ON"}), folder / "tree")
    assert lying.returncode == 1 and "USE_CUDA is not on in the build" in lying.stderr


def test_a_tree_that_does_not_fit_stops_it(tmp_path: Path) -> None:
    unpack(tmp_path / "tree")
    (tmp_path / "tree" / "CMakeLists.txt").write_text("other\n")
    done = _run(tmp_path, _plan(), tmp_path / "tree")
    assert done.returncode == 1 and "does not fit this tree" in done.stderr


def test_too_little_memory_is_told_before_anything_is_fetched(tmp_path: Path) -> None:
    done = _run(tmp_path, _plan(memory_gib=100_000), tmp_path / "tree")
    assert done.returncode == 1 and "needs 100000 GiB of memory" in done.stderr
