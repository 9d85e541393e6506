"""A real torch: its checks pass, and each check fails when the thing it looks at is broken a little."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from pretended_gpus import ARC
from rekindle.model.verify import VerifyReport
from rekindle.verify.runner import run_checks
from rekindle.verify.target import Target, Trial


def find_torch() -> str | None:
    """An interpreter with torch: named by hand, or prepared by .ci/prepare/verify.sh."""
    if named := os.environ.get("REKINDLE_TEST_TORCH"):
        return named
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    python = cache / "rekindle-tests" / "torch" / "bin" / "python"
    return str(python) if python.exists() else None


PYTHON = find_torch()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(PYTHON is None, reason="needs a Python with torch (REKINDLE_TEST_TORCH=…)"),
    pytest.mark.skipif(sys.platform == "win32", reason="the breaking is done through PYTHONPATH and fork"),
]

# Loads the real torch, then runs one statement on it: the smallest possible broken build.
BREAKER = """
import importlib.abc, importlib.util, os, sys
class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            exec(os.environ["REKINDLE_BREAK"], {"torch": module, "F": module.nn.functional})
        spec.loader.exec_module = exec_module
        return spec
if os.environ.get("REKINDLE_BREAK"):
    sys.meta_path.insert(0, Finder())
"""


def try_torch(folder: Path, *, breaking: str = "", **more: object) -> VerifyReport:
    (folder / "sitecustomize.py").write_text(BREAKER)
    env = {"PYTHONPATH": str(folder), "REKINDLE_BREAK": textwrap.dedent(breaking), "OMP_NUM_THREADS": "2"}
    assert PYTHON is not None
    return run_checks(Target(command=(PYTHON,), package="torch", env=env), Trial(**more))  # type: ignore[arg-type]


def test_a_published_torch_passes_smoke(tmp_path: Path) -> None:
    report = try_torch(tmp_path)
    assert report.good, [(check.id, check.detail) for check in report.checks if check.status == "failed"]
    assert report.passed >= 20
    assert all(check.worst is None or check.worst <= 1.0 for check in report.checks)


# check -> the statement that breaks what it looks at. Broken together are only things that no other check of the
# same group touches, so each failure has its own cause; a group costs one import of torch.
GROUPS = {
    "matmul and others": {
        "ops.matmul": "a = torch.Tensor.__matmul__; torch.Tensor.__matmul__ = lambda x, y: a(x, y) * 1.0001",
        "ops.pooling": "b = F.max_pool2d; F.max_pool2d = lambda x, n: -b(-x, n)",
        "ops.fft": "c = torch.fft.fft; torch.fft.fft = lambda *w, **k: c(*w, **k).conj()",
        "save-load": "d = torch.load; torch.load = lambda *w, **k: {**d(*w, **k), 'n': 8}",
    },
    "convolution and others": {
        "ops.elementwise": "a = torch.exp; torch.exp = lambda x: a(x) + 1e-4",
        "ops.conv": "b = F.conv2d; F.conv2d = lambda *w, **k: b(*w, **k) * 1.0001",
        "ops.sort": "c = torch.Tensor.cumsum; torch.Tensor.cumsum = lambda x, d: c(x, d).float().double()",
        "ops.random": "d = torch.randn; torch.randn = lambda *w, **k: d(*w, **k) * 1.02",
        "numpy": "torch.from_numpy = lambda x: torch.tensor(x)",
        "threads": "torch.set_num_threads = lambda n: None",
    },
    "sums and others": {
        "ops.reductions": "a = torch.Tensor.sum; torch.Tensor.sum = lambda *w, **k: a(*w, **k) * 1.01",
        "ops.activations": "b = F.softmax; F.softmax = lambda x, d: b(x * 1.001, d)",
        "ops.linalg": "c = torch.linalg.inv; torch.linalg.inv = lambda x: c(x) * 1.001",
    },
    "gradients and others": {
        "ops.indexing": "a = torch.Tensor.index_select; torch.Tensor.index_select = lambda x, d, i: a(x, d, i.flip(0))",
        "autograd": "b = F.avg_pool2d; F.avg_pool2d = lambda x, n: b(x, n).detach()",
        "training": "torch.Tensor.sub_ = lambda p, v: p",
    },
}


@pytest.mark.parametrize("group", GROUPS)
def test_a_broken_torch_fails_the_checks_that_look_there(tmp_path: Path, group: str) -> None:
    broken = GROUPS[group]
    report = try_torch(tmp_path, breaking="\n".join(broken.values()), only=tuple(broken))
    assert {check.id for check in report.checks if check.status == "failed"} == set(broken)


def test_a_plan_that_promises_something_else_is_noticed(tmp_path: Path) -> None:
    expect = {"version": "1.0.0", "cuda": "11.4"}
    report = try_torch(tmp_path, expect=expect, only=("version", "settings"))
    assert {check.id for check in report.checks if check.status == "failed"} == {"version", "settings"}


def test_the_checks_of_intel_gpus_ask_for_no_float64_where_the_card_has_none(tmp_path: Path) -> None:
    report = try_torch(tmp_path, breaking=ARC)
    wrong = [(check.id, check.detail) for check in report.checks if check.status == "failed"]
    assert not wrong
    assert report.good, report.missing
    assert "gpu" in report.claims and report.environment["gpu0"].startswith("Intel(R) Arc(TM) A770")
    details = {check.id: check.detail for check in report.checks if check.status == "passed"}
    assert details["settings"].startswith("XPU") and "without float64" in details["gpu0.start"]
    assert "oneDNN" in details["gpu0.conv"] and "not offered: float64" in details["gpu0.elementwise"]


def test_wrong_numbers_of_an_intel_gpu_are_found(tmp_path: Path) -> None:
    wrong = ARC + "\nsoftmax = torch.softmax\nadd = torch.addmm\ntorch.addmm = lambda *w, **k: add(*w, **k) * 1.01\n"
    report = try_torch(tmp_path, breaking=wrong, only=("gpu0.matmul", "gpu0.start"))
    assert {check.id: check.status for check in report.checks}["gpu0.matmul"] == "failed"
    assert report.verdict == "failed"
