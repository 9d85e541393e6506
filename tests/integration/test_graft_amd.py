"""Graft for AMD with the real hipcc: ten units get code for a chip, renamed and compiled; LLVM's tools read it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle.formats.offload import object_chip, read_object_face
from rekindle.graft.hip import HipLibrary
from tiny_wheels import make_wheel

pytestmark = [
    pytest.mark.integration,
    needs.tool("hipcc"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]
UNITS = 10
UNIT = r"""
#include <hip/hip_runtime.h>
static __device__ int counterNUMBER;
__constant__ float tableNUMBER[4 + NUMBER];
namespace {
template <typename T> __global__ void hiddenNUMBER(T *out, const T *in, int n, float scale) {
  int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < n) { out[at] = in[at] * T(scale) + T(tableNUMBER[at % 4]); atomicAdd(&counterNUMBER, 1); }
}
}
__global__ void plainNUMBER(int *x) { x[threadIdx.x] += NUMBER; }
extern "C" int runNUMBER(float *o, double *d, int *x, int n) {
  hiddenNUMBER<float><<<n, 64>>>(o, o, n, 2.0f);
  hiddenNUMBER<double><<<n, 64>>>(d, d, n, 3.0f);
  plainNUMBER<<<1, 64>>>(x);
  void *p;
  return hipGetSymbolAddress(&p, HIP_SYMBOL(counterNUMBER)) + hipGetSymbolAddress(&p, HIP_SYMBOL(tableNUMBER));
}
"""
ENV = {**os.environ, "HIP_PLATFORM": "amd"}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    for number in range(UNITS):
        (folder / f"unit{number}.hip").write_text(UNIT.replace("NUMBER", str(number)))
    return folder


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten units with gfx906 and gfx1030 in one library."""
    folder = tmp_path_factory.mktemp("wheel")
    objects = []
    for file in sorted(tree.glob("*.hip")):
        objects.append(f"{file.stem}.o")
        command = ["hipcc", "--offload-arch=gfx906", "--offload-arch=gfx1030", "-O3", "-fPIC", "-c", str(file)]
        subprocess.run([*command, "-o", objects[-1]], cwd=folder, env=ENV, check=True, timeout=120)
    subprocess.run(["cc", "-shared", "-o", "lib.so", *objects, "-lamdhip64"], cwd=folder, check=True, timeout=60)
    tag = f"py3-none-linux_{os.uname().machine}"
    return make_wheel(folder, "tiny", "1.0", tag=tag, files={"tiny/lib.so": (folder / "lib.so").read_bytes()})


def _graft(*words: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "rekindle", "graft", *map(str, words), "--json", "-q"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _unpacked(report: dict[str, Any], folder: Path) -> Path:
    shutil.unpack_archive(report["out"], folder, "zip")
    return folder / "tiny/lib.so"


def test_code_of_a_chip_of_the_same_kind(wheel: Path, tree: Path, tmp_path: Path) -> None:
    report = _graft(wheel, "--gpu", "gfx1031", "--out", tmp_path, "--workspace", tmp_path / "ws")
    assert report["way"] == "twin" and sum(unit["state"] == "added" for unit in report["units"]) == UNITS
    with HipLibrary(_unpacked(report, tmp_path / "u"), "lib.so") as library:
        for number, unit in enumerate(library.units):
            # Renamed, it is what the compiler itself makes for that chip.
            command = ["hipcc", "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "--offload-arch=gfx1031"]
            made = tmp_path / f"{number}.co"
            file = tree / f"unit{number}.hip"
            subprocess.run([*command, "-O3", "-c", str(file), "-o", str(made)], env=ENV, check=True, timeout=120)
            assert library.code_object(unit, "gfx1031") == made.read_bytes()


def test_code_from_sources(wheel: Path, tree: Path, tmp_path: Path) -> None:
    words = ("--gpu", "gfx1010", "--source", tree, "--out", tmp_path, "--workspace", tmp_path / "ws", "--jobs", "2")
    report = _graft(wheel, *words)
    assert report["way"] == "source" and report["compiled"] == UNITS
    path = _unpacked(report, tmp_path / "u")
    with HipLibrary(path, "lib.so") as library:
        for unit in library.units:
            new, old = library.code_object(unit, "gfx1010"), library.code_object(unit, "gfx906")
            assert object_chip(new) == "gfx1010"
            assert read_object_face(new).kernels.keys() == read_object_face(old).kernels.keys()
    # The loader still takes the library, and its constructors register what they did before.
    subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(path)!r}).run0"], check=True, timeout=60)


@needs.tool("llvm-objcopy")
def test_llvm_reads_it(wheel: Path, tmp_path: Path) -> None:
    bundler = shutil.which("clang-offload-bundler") or shutil.which("clang-offload-bundler-15")
    if bundler is None:
        pytest.skip("needs clang-offload-bundler")
    report = _graft(wheel, "--gpu", "gfx1032", "--out", tmp_path, "--workspace", tmp_path / "ws")
    path = _unpacked(report, tmp_path / "u")
    section = tmp_path / "section.bin"
    subprocess.run(
        ["llvm-objcopy", f"--dump-section=.hip_fatbin={section}", str(path), str(tmp_path / "x")], check=True
    )
    said = subprocess.run(
        [bundler, "--list", "--type=o", f"--input={section}"], capture_output=True, text=True, timeout=60
    )
    assert "hipv4-amdgcn-amd-amdhsa--gfx1032" in said.stdout, said.stderr
