"""Graft with the real ptxas: a library that nvcc made gets code for a card it lacks; killed, it continues."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle.graft.library import GpuLibrary
from tiny_wheels import make_wheel

NVCC = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if Path("/usr/local/cuda/bin/nvcc").is_file() else None)
pytestmark = [
    pytest.mark.integration,
    needs.tool("g++"),
    pytest.mark.skipif(NVCC is None, reason="needs nvcc, on PATH or in /usr/local/cuda"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]
UNIT = r"""
namespace {
__device__ int hidden_NAME;
__global__ void anonymous(float *a, int n, double z) { hidden_NAME = n; a[n] = z; }
}
__constant__ float table_NAME[8];
__global__ void scale_NAME(float *a, float b, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x; if (i < n) a[i] = b * a[i] + table_NAME[i & 7];
}
void go_NAME(float *a) { anonymous<<<1, 1>>>(a, 1, 2.0); scale_NAME<<<1, 1>>>(a, 2.f, 3); }
"""
UNITS = ("one", "two", "three", "four")


@pytest.fixture(scope="module")
def toolkit() -> Path:
    """The folder of the real toolkit, not of a link into it."""
    said = subprocess.run([str(NVCC), "--dryrun", "-x", "cu", "/dev/null"], capture_output=True, text=True)
    here = next(line.split("=", 1)[1] for line in said.stderr.splitlines() if "_HERE_=" in line)
    return Path(here).parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four units with sm_80 and PTX in one library."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in UNITS:
        (folder / f"{name}.cu").write_text(UNIT.replace("NAME", name))
    targets = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_80,code=compute_80"]
    files = [f"{name}.cu" for name in UNITS]
    subprocess.run(
        [str(NVCC), "-shared", "-cudart", "none", "-Xcompiler", "-fPIC", "-w", *targets, *files, "-o", "lib.so"],
        cwd=folder,
        check=True,
        timeout=300,
    )
    tag = f"py3-none-linux_{os.uname().machine}"
    return make_wheel(folder, "tiny", "1.0", tag=tag, files={"tiny/lib.so": (folder / "lib.so").read_bytes()})


def _graft(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "rekindle", "graft", *map(str, words), "--json", "-q"]


def _run(*words: str | Path, code: int = 0) -> dict[str, Any]:
    done = subprocess.run(_graft(*words), capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    return answer


def _slow_toolkit(folder: Path, real: Path) -> Path:
    """A toolkit whose ptxas takes a second and notes every run."""
    (folder / "bin").mkdir(parents=True)
    for name in ("ptxas", "fatbinary"):
        script = folder / "bin" / name
        script.write_text(
            f'#!/bin/sh\ncase "$*" in *--version*) ;; *) echo {name} >> {folder}/runs; '
            f'{"sleep 1;" if name == "ptxas" else ""} ;; esac\nexec {real}/bin/{name} "$@"\n'
        )
        script.chmod(0o755)
    return folder


def test_new_code_stands_beside_the_old(tmp_path: Path, wheel: Path, toolkit: Path) -> None:
    told = ("--gpu", "sm_90", "--toolkit", toolkit, "--workspace", tmp_path / "ws", "--out", tmp_path / "out")
    report = _run(wheel, *told)
    assert [one["state"] for one in report["units"]] == ["added"] * 4 and report["compiled"] == 4
    assert sorted(one["unit"] for one in report["units"]) == sorted(f"{name}_cu" for name in UNITS)
    subprocess.run(["unzip", "-q", report["out"], "-d", tmp_path / "x"], check=True)
    library = tmp_path / "x/tiny/lib.so"
    with GpuLibrary(library, "lib.so") as read:
        assert all([entry.name for entry in unit.sass] == ["sm_80", "sm_90"] for unit in read.units)
        for unit in read.units:
            old, new = (read.face(entry) for entry in unit.sass)
            assert old.kernels.keys() == new.kernels.keys() and len(new.kernels) == 2
    if cuobjdump := shutil.which("cuobjdump"):
        said = subprocess.run([cuobjdump, "-lelf", library], capture_output=True, text=True, check=True).stdout
        assert said.count("sm_80") == said.count("sm_90") == 4
        sass = subprocess.run([cuobjdump, "-sass", "-arch", "sm_90", library], capture_output=True, text=True).stdout
        assert all(f"scale_{name}" in sass for name in UNITS)
    inspected = subprocess.run(
        [sys.executable, "-m", "rekindle", "inspect", report["out"], "--json", "--no-cpu", "--for", "sm_90"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert json.loads(inspected.stdout)["gpu"]["libraries"][0]["sass"] == ["sm_80", "sm_90"]
    again = _run(wheel, *told)
    assert again["compiled"] == 0 and again["sha256"] == report["sha256"]


def test_killed_at_several_moments_it_continues_and_compiles_nothing_twice(
    tmp_path: Path, wheel: Path, toolkit: Path
) -> None:
    slow = _slow_toolkit(tmp_path / "slow", toolkit)
    words = (wheel, "--gpu", "sm_90", "--toolkit", slow, "--workspace", tmp_path / "ws", "--out", tmp_path / "out",
             "--jobs", "1")  # fmt: skip
    killed = 0
    for how, after in ((signal.SIGKILL, 2), (signal.SIGINT, 3), (signal.SIGTERM, 4)):
        running = subprocess.Popen(_graft(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and running.poll() is None:
            runs = (slow / "runs").read_text().count("ptxas") if (slow / "runs").exists() else 0
            if runs >= after:
                break
            time.sleep(0.05)
        running.send_signal(how)
        _, said = running.communicate(timeout=60)
        killed += 1
        assert running.returncode == (-9 if how == signal.SIGKILL else 3), said.decode()
        assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
    report = _run(*words)
    assert report["out"] and all(one["state"] == "added" for one in report["units"])
    runs = (slow / "runs").read_text().count("ptxas")
    assert runs <= len(UNITS) + killed, "only what was running when it was killed is done again"


def test_made_here_and_applied_there(tmp_path: Path, wheel: Path, toolkit: Path) -> None:
    told = ("--gpu", "sm_90", "--toolkit", toolkit, "--workspace", tmp_path / "ws", "--out", tmp_path / "out")
    direct = _run(wheel, *told)
    made = _run("make", wheel, *told)
    applied = _run("apply", wheel, made["graft"], "--out", tmp_path / "applied")
    assert applied["sha256"] == direct["sha256"] == made["sha256"] and applied["same_bytes"] is True


def test_a_card_that_the_toolkit_does_not_know_is_told(tmp_path: Path, wheel: Path, toolkit: Path) -> None:
    said = _run(wheel, "--gpu", "Tesla K40c", "--toolkit", toolkit, "--workspace", tmp_path, code=2)["error"]
    assert "sm_35" in said and "→" in said and len(said.strip().splitlines()) == 2


def test_a_card_it_has_code_for_needs_nothing(tmp_path: Path, wheel: Path, toolkit: Path) -> None:
    report = _run(
        wheel, "--gpu", "sm_80", "--toolkit", toolkit, "--workspace", tmp_path / "ws", "--out", tmp_path / "out"
    )
    assert {one["state"] for one in report["units"]} == {"has"} and report["out"] is None
    assert not any("driver" in note for note in report["notes"]), "nothing was made that could ask for one"


def test_a_graft_is_repeated_byte_for_byte_and_its_claims_hold(tmp_path: Path, wheel: Path, toolkit: Path) -> None:
    official = shutil.copy(wheel, tmp_path)
    report = _run(official, "--gpu", "sm_90", "--toolkit", toolkit, "--workspace", tmp_path / "ws")
    told = [sys.executable, "-m", "rekindle"]
    env = {**os.environ, "PATH": f"{toolkit}/bin:{os.environ['PATH']}"}
    again = subprocess.run(
        [*told, "rebuild", report["provenance"], "--workspace", tmp_path / "again", "--json", "-q"],
        capture_output=True, text=True, timeout=300, env=env,
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    done = json.loads(again.stdout)
    assert done["verdict"] == "identical" and done["sha256"] == report["sha256"]
    claims = subprocess.run(
        [*told, "verify", "--claims", report["out"], "--json", "-q"], capture_output=True, text=True, timeout=300
    )
    checks = {check["id"]: check["status"] for check in json.loads(claims.stdout)["checks"]}
    assert "failed" not in checks.values() and checks["version"] == checks["record"] == "passed", checks
