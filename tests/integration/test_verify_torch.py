"""A real torch: its checks pass, and each check fails when the thing it looks at is broken a little."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path

import pytest

from rekindle.model.verify import VerifyReport
from rekindle.verify.runner import run_checks
from rekindle.verify.target import Target


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
    return run_checks(Target(command=(PYTHON,), package="torch", env=env), **more)  # type: ignore[arg-type]


def test_a_published_torch_passes_smoke(tmp_path: Path) -> None:
    report = try_torch(tmp_path)
    assert report.good, [(check.id, check.detail) for check in report.checks if check.status == "failed"]
    assert report.passed >= 20
    assert all(check.worst is None or check.worst <= 1.0 for check in report.checks)


@pytest.mark.parametrize(
    ("id", "breaking"),
    [
        ("ops.matmul", "a = torch.Tensor.__matmul__; torch.Tensor.__matmul__ = lambda x, y: a(x, y) * 1.0001"),
        ("ops.elementwise", "a = torch.exp; torch.exp = lambda x: a(x) + 1e-4"),
        ("ops.reductions", "a = torch.Tensor.sum; torch.Tensor.sum = lambda *w, **k: a(*w, **k) * 1.01"),
        ("ops.conv", "a = F.conv2d; F.conv2d = lambda *w, **k: a(*w, **k) * 1.0001"),
        ("ops.pooling", "a = F.max_pool2d; F.max_pool2d = lambda x, n: -a(-x, n)"),
        ("ops.activations", "a = F.softmax; F.softmax = lambda x, d: a(x * 1.001, d)"),
        (
            "ops.indexing",
            "a = torch.Tensor.index_select; torch.Tensor.index_select = lambda x, d, i: a(x, d, i.flip(0))",
        ),
        ("ops.sort", "a = torch.Tensor.cumsum; torch.Tensor.cumsum = lambda x, d: a(x, d).float().double()"),
        ("ops.fft", "a = torch.fft.fft; torch.fft.fft = lambda *w, **k: a(*w, **k).conj()"),
        ("ops.linalg", "a = torch.linalg.inv; torch.linalg.inv = lambda x: a(x) * 1.001"),
        ("ops.random", "a = torch.randn; torch.randn = lambda *w, **k: a(*w, **k) * 1.02"),
        ("autograd", "a = F.avg_pool2d; F.avg_pool2d = lambda x, n: a(x, n).detach()"),
        ("training", "torch.Tensor.sub_ = lambda p, v: p"),
        ("save-load", "a = torch.load; torch.load = lambda *w, **k: {**a(*w, **k), 'n': 8}"),
        ("numpy", "torch.from_numpy = lambda x: torch.tensor(x)"),
        ("threads", "torch.set_num_threads = lambda n: None"),
    ],
)
def test_a_broken_torch_fails_the_check_that_looks_there(tmp_path: Path, id: str, breaking: str) -> None:
    report = try_torch(tmp_path, breaking=breaking, only=(id,))
    assert [check.id for check in report.checks if check.status == "failed"] == [id]


def test_a_plan_that_promises_something_else_is_noticed(tmp_path: Path) -> None:
    expect = {"version": "1.0.0", "cuda": "11.4"}
    report = try_torch(tmp_path, expect=expect, only=("version", "settings"))
    assert {check.id for check in report.checks if check.status == "failed"} == {"version", "settings"}
