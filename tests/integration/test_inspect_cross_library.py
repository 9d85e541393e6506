"""Two real libraries in one wheel: AVX2 in one, reached from the other with and without asking the CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import needs
from binaries import make_wheel
from rekindle import api
from rekindle.model.wheel import WheelReport

GCC = "x86_64-linux-gnu-gcc"
pytestmark = [pytest.mark.integration, needs.tool(GCC)]
# The name is what tells that its callers are meant to ask (guards.toml).
KERNEL = """
__attribute__((target("avx2"))) void fbgemm_scale(int *a, int n) { for (int i = 0; i < n; i++) a[i] = a[i] * 3 + 1; }
int fbgemm_asks(void) { return __builtin_cpu_supports("avx2"); }
"""
CALLER = "extern void fbgemm_scale(int *, int); void run(int *a, int n) { %s fbgemm_scale(a, n); }"


def built(folder: Path, stripped: bool, ask: str) -> WheelReport:
    folder.mkdir()
    files = {}
    for name, text in (("libkernel", KERNEL), ("libcaller", CALLER % ask)):
        (folder / f"{name}.c").write_text(text)
        made = folder / f"{name}.so"
        flags = ["-O3", "-shared", "-fPIC", "-nostartfiles", *(["-s"] if stripped else [])]
        subprocess.run([GCC, *flags, "-o", made, folder / f"{name}.c"], check=True)
        files[f"pkg/{name}.so"] = made.read_bytes()
    wheel = folder / "pkg-1.0-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(make_wheel(files, name="pkg"))
    return api.inspect(str(wheel))


@pytest.mark.parametrize("stripped", [False, True])
def test_called_from_another_library(tmp_path: Path, stripped: bool) -> None:
    careless = built(tmp_path / "a", stripped, "")
    assert [use.isa for use in careless.cpu.unconditional if use.isa == "avx2"] == ["avx2"]
    [found] = [one for one in careless.cpu.evidence if "avx2" in one.isa]
    assert found.file.startswith("pkg/libkernel.so")
    assert found.why == "called by run in libcaller.so, which asks nothing of the CPU"


def test_a_caller_that_asks(tmp_path: Path) -> None:
    careful = built(tmp_path / "b", False, 'if (!__builtin_cpu_supports("avx2")) return;')
    assert not careful.cpu.unconditional
    assert not careful.cpu.suspects
