"""``up`` and ``index`` with a graft, whole, by the real compiler: a torch of two kernels without this card's code."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import needs
from app_trees import make_app
from rekindle import api
from rekindle.journey import adopt, adopt_forecast
from rekindle.model.verify import VerifyReport
from rekindle.plan.describe import machine_from_flags
from tiny_wheels import make_wheel

NVCC = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if Path("/usr/local/cuda/bin/nvcc").is_file() else None)
pytestmark = [
    pytest.mark.integration,
    needs.tool("g++"),
    pytest.mark.skipif(NVCC is None, reason="needs nvcc, on PATH or in /usr/local/cuda"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]
UNIT = "__global__ void scale_NAME(float *a, float b) { a[threadIdx.x] *= b; }\n"
UNIT += "void go_NAME(float *a) { scale_NAME<<<1, 1>>>(a, 2.f); }\n"
# A card that no wheel of torch 2.12.1 has code for on this kind of machine, and older PTX than it.
CARD, PTX = ("sm_75", "75") if platform.machine() == "aarch64" else ("sm_110", "80")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that torch."""
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("one", "two"):
        (folder / f"{name}.cu").write_text(UNIT.replace("NAME", name))
    targets = ["-gencode", "arch=compute_80,code=sm_80", "-gencode", f"arch=compute_{PTX},code=compute_{PTX}"]
    made = [str(NVCC), "-shared", "-cudart", "none", "-Xcompiler", "-fPIC", "-w", *targets, "one.cu", "two.cu"]
    subprocess.run([*made, "-o", "lib.so"], cwd=folder, check=True, timeout=300)
    files = {
        "torch/__init__.py": b"from torch.version import __version__\n",
        "torch/version.py": b"__version__ = '2.12.1+cu130'\ncuda = '13.0'\n",
        "torch/lib/libtorch_cuda.so": (folder / "lib.so").read_bytes(),
    }
    make_wheel(folder, "torch", "2.12.1", tag=f"py3-none-linux_{platform.machine()}", files=files)
    return folder


def _run(*words: str | Path, code: int | None = 0) -> dict[str, Any]:
    told = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_EXTRA_INDEX_URL": ""}
    done = subprocess.run(
        [sys.executable, "-m", "rekindle", *map(str, words), "--json", "-q"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env={**os.environ, **told},
    )  # fmt: skip
    assert code is None or done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    answer: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"error": done.stderr}
    return answer


def _up(workspace: Path, wheels: Path, *more: str, code: int | None = 1) -> dict[str, Any]:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    told = ("--torch", "2.12.1", "--gpu", CARD, "--offline", "--find-links", wheels, "--torch-only", "--python", python)
    return _run("up", *told, "--workspace", workspace, *more, code=code)


def test_up_grafts_installs_and_proves(tmp_path: Path, wheels: Path) -> None:
    told = _up(tmp_path / "ws", wheels, "--dry-run", code=0)
    assert told["plan"]["answer"] == "graft" and "grafted for" in told["card"]["what"][0]
    assert not (tmp_path / "ws").exists()
    # Two kernels are no torch: it is installed, and the proof says so.
    journey = _up(tmp_path / "ws", wheels, "--yes")
    legs = {leg["name"]: leg["status"] for leg in journey["legs"]}
    assert legs == {"probe": "done", "plan": "done", "graft": "done", "install": "done", "verify": "failed"}, journey
    name = f"torch-2.12.1+cu130.{CARD.replace('_', '')}-py3-none-linux_{platform.machine()}.whl"
    assert Path(journey["wheel"]).name == name
    site = next((tmp_path / "ws/envs").glob("*/lib/python*/site-packages"))
    assert [path.name for path in site.glob("torch-*.dist-info")] == [
        f"torch-2.12.1+cu130.{CARD.replace('_', '')}.dist-info"
    ]
    again = _up(tmp_path / "ws", wheels, "--yes")
    assert {leg["name"]: leg["status"] for leg in again["legs"]}["graft"] == "kept"


def test_the_build_can_still_be_insisted_on(tmp_path: Path, wheels: Path) -> None:
    told = _run("plan", "--torch", "2.12.1", "--gpu", CARD, "--os", "linux", "--arch", platform.machine(), "--build")
    assert told["answer"] == "build" and told["graft"] is None


def test_an_application_gets_a_grafted_torch_and_gives_it_back(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card and the proof are stand-ins; the official wheel, the compiler, pip and the environment are real."""
    app = make_app(tmp_path / "Comfy UI", "comfyui", version="0.3.60")
    subprocess.run([sys.executable, "-m", "venv", str(app / "venv")], check=True)
    monkeypatch.setattr(
        adopt_forecast,
        "this_machine",
        lambda: machine_from_flags(gpu=[CARD], os="linux", arch=platform.machine(), driver="580.95"),
    )
    monkeypatch.setattr(adopt, "verify", lambda **_words: VerifyReport(verdict="proven", passed=3))
    for name, version in (("torchvision", "0.27.1"), ("torchaudio", "2.11.0"), ("numpy", "2.1.0")):
        make_wheel(wheels, name, version)
    told: dict[str, Any] = {
        "torch": "2.12.1",
        "find_links": [str(wheels)],
        "offline": True,
        "workspace": tmp_path / "ws",
    }
    planned = api.adopt(app, dry_run=True, **told)
    assert planned.state == "planned" and "grafted for" in str(planned.card), planned
    done = api.adopt(app, confirm=lambda _planned: True, **told)
    grafted = f"2.12.1+cu130.{CARD.replace('_', '')}"
    assert done.state == "adopted" and grafted in done.verdict, done
    python = app / "venv/bin/python"
    asked = [str(python), "-c", "import importlib.metadata as m; print(m.version('torch'))"]
    assert subprocess.run(asked, capture_output=True, text=True).stdout.strip() == grafted
    assert api.adopt(app, confirm=lambda _planned: True, **told).state == "already"
    assert api.adopt(app, undo=True).state == "undone"
    assert "PackageNotFoundError" in subprocess.run(asked, capture_output=True, text=True).stderr
