"""A real PyTorch tree, configured and its c10 library built by the real command line. Minutes, not hours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import needs
from rekindle.model.document import encode
from rekindle.model.plan import BuildRecipe, Plan

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
TREE = CACHE / "pytorch-1.13.1"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not (TREE / "setup.py").is_file(), reason="needs the tree that .ci/prepare/source.sh fetches"),
    pytest.mark.skipif(not Path("/usr/include/cpuinfo.h").is_file(), reason="needs .ci/packages/build.txt"),
    needs.tool("g++", "cmake", "protoc"),
]  # fmt: skip

SYSTEM = ("CPUINFO", "SLEEF", "FP16", "PTHREADPOOL", "PSIMD", "FXDIV", "ONNX", "PYBIND11", "EIGEN_INSTALL")
OFF = (
    "CUDA", "ROCM", "NCCL", "DISTRIBUTED", "MPI", "FBGEMM", "QNNPACK", "PYTORCH_QNNPACK", "XNNPACK", "NNPACK",
    "MKLDNN", "KINETO", "ITT", "BREAKPAD", "VULKAN",
)  # fmt: skip
# Interface targets where the stripped tarball has empty submodule folders.
FILL_INS = {
    "fmt": "add_library(fmt INTERFACE)\nadd_library(fmt-header-only INTERFACE)\n"
    "add_library(fmt::fmt ALIAS fmt)\nadd_library(fmt::fmt-header-only ALIAS fmt-header-only)\n",
    "foxi": "add_library(foxi_loader INTERFACE)\n",
}


def real_plan(**more: str) -> Plan:
    env = {f"USE_SYSTEM_{name}": "1" for name in SYSTEM} | {f"USE_{name}": "0" for name in OFF}
    # The string "0" is truthy in setup.py, which skips its check of submodules, while CMake sees OFF.
    env |= {"USE_SYSTEM_LIBS": "0", "BUILD_CUSTOM_PROTOBUF": "0", "BUILD_TEST": "0", "BUILD_CAFFE2": "0"}
    env |= {"ONNX_NAMESPACE": "onnx", "BLAS": "OpenBLAS", "USE_OPENMP": "1", "CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
    env |= {"CMAKE_BUILD_TYPE": "Debug", **more}
    pins = {"setuptools": "<60", "numpy": "<2", "pyyaml": ">=5", "typing_extensions": ">=4", "wheel": "<0.44"}
    recipe = BuildRecipe(source="Debian's tarball", env=env, pins=pins, asserts={"USE_CUDA": "OFF"})
    return Plan(answer="build", project="torch", torch="1.13.1", variant="cpu", build=recipe)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("torch") / "pytorch"
    shutil.copytree(TREE, root, symlinks=True, ignore=shutil.ignore_patterns("build", ".git"))
    for name, text in FILL_INS.items():
        (root / "third_party" / name).mkdir(exist_ok=True)
        (root / "third_party" / name / "CMakeLists.txt").write_text(text)
    return root


def rekindle(tree: Path, plan: Plan, *more: str) -> subprocess.CompletedProcess[str]:
    file = tree.parent / "plan.json"
    file.write_bytes(encode(plan))
    argv = [
        sys.executable, "-m", "rekindle", "build", "--trust", "--plan", str(file), "--source", str(tree), "--workspace",
        str(tree.parent / "ws"), "--python", sys.executable, "--target", "c10", "--json", "--jobs", "2", *more,
    ]  # fmt: skip
    return subprocess.run(argv, capture_output=True, text=True)


def test_what_cannot_be_configured_stops_before_compiling(tree: Path) -> None:
    """oneDNN is planned, its submodule is not there: PyTorch switches it off and goes on. We do not."""
    done = rekindle(tree, real_plan(USE_MKLDNN="1"))
    assert done.returncode == 1, done.stderr[-3000:]
    failure = json.loads(done.stdout)
    assert failure["phase"] in ("check", "configure")
    assert not list((tree / "build").rglob("c10/**/*.o"))


def test_c10_of_a_real_tree(tree: Path) -> None:
    done = rekindle(tree, real_plan(), "--clean")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    result = json.loads(done.stdout)["results"][0]
    assert (tree / "build/lib/libc10.so").is_file()
    facts = {fact["name"]: fact["ok"] for fact in result["facts"]}
    assert facts["BLAS"] is True
    assert facts["USE_CUDA"] is True
    assert result["steps"] > 40
    assert result["peak_memory_bytes"] > 50 << 20
    assert "c10" in Path(result["report"]).read_text()
