"""A real PyTorch tree by one command: fetched, filled, patched, configured, asserted, c10 built. Minutes, not hours."""

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

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
TARBALLS = CACHE / "fetch/cache/debian"

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        not list(TARBALLS.glob("pytorch_1.13.1*.orig.tar.xz")) or not list(TARBALLS.glob("pytorch_*.debian.tar.xz")),
        reason="needs the tarballs that .ci/prepare/source.sh fetches",
    ),
    pytest.mark.skipif(not Path("/usr/include/cpuinfo.h").is_file(), reason="needs .ci/packages/build.txt"),
    needs.tool("g++", "cmake", "protoc", "flatc"),
]  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty workspace, but for the tarballs: nothing is fetched twice."""
    root = tmp_path_factory.mktemp("torch") / "ws"
    (root / "cache/debian").mkdir(parents=True)
    for file in TARBALLS.glob("*.tar.xz"):
        shutil.copy(file, root / "cache/debian")
    return root


def up(workspace: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    argv = [
        sys.executable, "-m", "rekindle", "up", "--build", "--from", "debian", "--torch", "1.13.1", "--variant", "cpu",
        "--target", "c10", "--set", "CMAKE_BUILD_TYPE=Debug", "--yes", "--json", "--jobs", "2",
        "--workspace", str(workspace), *more,
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def test_what_cannot_be_configured_stops_before_compiling(workspace: Path) -> None:
    """oneDNN is asked for by hand, its submodule is not there: the stand-in says so, and nothing is compiled."""
    code, journey, said = up(workspace, "--set", "USE_MKLDNN=1")
    assert code == 1, said[-3000:]
    failure = journey["failure"]
    assert failure["phase"] in ("check", "configure")
    assert not list((workspace / "source/torch-1.13.1/build").rglob("c10/**/*.o"))


def test_c10_by_one_command(workspace: Path) -> None:
    """The edited plan of the test before needs no --clean, since nothing was compiled by it."""
    code, journey, said = up(workspace)
    assert code == 0, said[-3000:]
    assert [leg["name"] for leg in journey["legs"]] == ["probe", "plan", "check", "fetch", "patch", "build"]
    tree = workspace / "source/torch-1.13.1"
    assert (tree / "build/lib/libc10.so").is_file()
    built = json.loads((workspace / "reports/build.json").read_text())
    facts = {fact["name"]: fact["ok"] for fact in built["facts"]}
    assert facts["BLAS"] is True
    assert facts["USE_LAPACK"] is True
    assert facts["USE_CUDA"] is True
    assert built["steps"] > 40
    record = json.loads((tree / ".rekindle/tree.json").read_text())
    ways = {part["name"]: part["way"] for part in record["supply"]}
    assert (ways["sleef"], ways["kineto"], ways["foxi"], ways["gloo"]) == ("system", "copy", "stand-in", "off")
    assert "fmt9-back-inserter" in {patch["id"] for patch in record["patches"]}, "the system's fmt is 9 or newer"


def test_another_launcher_continues(workspace: Path) -> None:
    """Nothing is compiled again for it, and nobody is asked for --clean."""
    if shutil.which("ccache") is None:
        pytest.skip("needs ccache")
    code, _, said = up(workspace, "--launcher", "ccache", "--memory", "4G")
    assert code == 0, said[-3000:]
    log = max((workspace / "logs").glob("*build.log"), key=lambda path: path.stat().st_mtime).read_text()
    assert "ninja: no work to do" in log
