"""``adopt`` under a Windows Python: the portable edition of ComfyUI, whose Python is the embeddable one, with a file
``._pth``, without a compiler, in a folder with a space in its name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from winworld import ONLY

from app_trees import make_app
from rekindle import api
from rekindle.host.live import LiveHost
from rekindle.interpreters.packages import look_into
from rekindle.journey import adopt, adopt_forecast
from rekindle.model.plan import Plan, Request
from rekindle.model.verify import VerifyReport
from tiny_wheels import make_wheel

pytestmark = ONLY
NAME = f"python{sys.version_info[0]}{sys.version_info[1]}"


def torch_wheel(folder: Path, version: str) -> Path:
    files = {"torch/__init__.py": b"", "torch/version.py": f"__version__ = {version!r}\ncuda = None\n".encode()}
    return make_wheel(folder, "torch", version, files=files)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """ComfyUI_windows_portable with torch 2.4.0."""
    folder = tmp_path / "ComfyUI windows portable"
    make_app(folder, "comfyui", version="0.38.1", inside="ComfyUI")
    embedded = folder / "python_embeded"
    embedded.mkdir()
    for file in Path(sys.executable).parent.iterdir():
        if file.is_file():
            shutil.copy2(file, embedded)
    (embedded / f"{NAME}._pth").write_text(f"../ComfyUI\n{NAME}.zip\n.\nimport site\n", encoding="utf-8")
    for wheel in (torch_wheel(tmp_path, "2.4.0"), make_wheel(tmp_path, "numpy", "2.1.0")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(embedded / "Lib" / "site-packages")
    # Its makers put a pip into it; this one is that of the checks' own environment.
    pip = next(Path(__file__).parents[2].glob(".venv/[Ll]ib*/python*/site-packages/pip"), None)
    if pip is None:
        pytest.skip("the checks' own environment has no pip")
    shutil.copytree(pip, embedded / "Lib" / "site-packages" / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def state_of(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


def test_the_portable_edition_is_adopted_and_given_back(
    app: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = torch_wheel(tmp_path, "2.9.1+cpu")
    made = Plan(
        answer="install",
        torch="2.9.1",
        variant="cpu",
        requests=(Request(name="torch", version="2.9.1+cpu"),),
        env={"OMP_NUM_THREADS": "3"},
    )
    monkeypatch.setattr(adopt_forecast, "this_machine", lambda: None)
    monkeypatch.setattr(adopt_forecast, "make_plan", lambda *_words, **_more: made)
    monkeypatch.setattr(adopt, "verify", lambda **_words: VerifyReport(verdict="proven", passed=3))
    before = state_of(app)
    python = app / "python_embeded" / "python.exe"
    done = api.adopt(app, workspace=tmp_path / "ws", offline=True, find_links=[str(wheel.parent)])
    assert (done.state, done.python) == ("adopted", str(python)), done
    assert look_into(LiveHost(), str(python)).versions["torch"] == "2.9.1+cpu"
    told = subprocess.run([str(python), "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"], capture_output=True)
    assert told.stdout.split() == [b"3"], told
    assert (app / "python_embeded" / "pip.ini").is_file() and "UV_CONSTRAINT" not in os.environ
    assert api.adopt(app, workspace=tmp_path / "ws").state == "already"
    assert api.adopt(app, undo=True).state == "undone"
    assert state_of(app) == before
