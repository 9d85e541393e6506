"""``up`` as a newcomer types it: an environment where it was asked for, pip or uv, no index, and the days after."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tiny_wheels
from rekindle.model.journey import Journey

pytestmark = [pytest.mark.integration]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The torch that a plan for this machine's CPU names, as a tiny wheel."""
    folder = tmp_path_factory.mktemp("räder")
    planned = json.loads(
        subprocess.run(
            [sys.executable, "-m", "rekindle", "plan", "--json", "--variant", "cpu"],
            check=True, capture_output=True, text=True,
        ).stdout
    )  # fmt: skip
    torch = next(one for one in planned["requests"] if one["name"] == "torch")
    source = f"__version__ = {torch['version']!r}\ncuda = None\nhip = None\n".encode()
    tiny_wheels.make_wheel(
        folder, "torch", torch["version"], files={"torch/__init__.py": b"", "torch/version.py": source}
    )
    return folder


def up(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    env |= {"PIP_CONFIG_FILE": os.devnull, "XDG_DATA_HOME": str(folder / "data"), "UV_NO_CONFIG": "1"}
    return subprocess.run(
        [sys.executable, "-m", "rekindle", "up", "--variant", "cpu", "--torch-only", "--workspace", "w s", *more],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, env=env,
    )  # fmt: skip


def test_a_dry_run_shows_the_card_and_writes_nothing(tmp_path: Path, wheels: Path) -> None:
    done = up(tmp_path, "--dry-run", "--offline", "--find-links", str(wheels), "--venv", ".venv")
    assert done.returncode == 0, done.stderr
    assert "1 package," in done.stdout and ".venv" in done.stdout and str(wheels) in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_without_any_index_torch_goes_into_the_environment_that_was_asked_for(
    tmp_path: Path, wheels: Path, installer: str
) -> None:
    if installer == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not here")
    done = up(
        tmp_path, "--yes", "--json", "--offline", "--find-links", str(wheels), "--venv", "mein .venv",
        "--installer", installer,
    )  # fmt: skip
    # The tiny torch computes nothing, so it is installed and not proven: the honest answer is no.
    assert done.returncode == 1, done.stderr
    journey: dict[str, object] = json.loads(done.stdout)
    legs = {leg["name"]: leg["status"] for leg in journey["legs"]}  # type: ignore[attr-defined]
    assert legs["install"] == "done", done.stderr
    folder = tmp_path / "mein .venv"
    assert (folder / ".made-by-rekindle").is_file()
    constraints = folder / "rekindle/constraints.txt"
    assert str(constraints) in journey["keeps"]  # type: ignore[operator]
    assert "torch==" in constraints.read_text() and set(journey) <= set(Journey.__struct_fields__)


def test_an_installer_asks_once_and_gets_a_small_document(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rekindle import api
    from rekindle.errors import NotReady
    from rekindle.model.document import decode, encode
    from rekindle.model.plan import TorchChoice, TorchReady, Wish

    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    choice = api.choose_torch(wish=Wish(variant="cpu"))
    assert decode(encode(choice), TorchChoice) == choice and choice.answer == "install" and choice.backend == "cpu"
    ready = api.bring_torch(
        tmp_path / "env", wish=Wish(variant="cpu"), workspace=tmp_path / "w", offline=True, find_links=[str(wheels)],
        torch_only=True,
    )  # fmt: skip
    # The tiny torch is there and proves nothing.
    assert not ready.ready and "not proven" in ready.verdict and ready.torch == choice.torch
    assert Path(ready.constraints or "").is_file() and decode(encode(ready), TorchReady) == ready
    wish = Wish(variant="cpu", build=True)
    try:
        built = api.bring_torch(tmp_path / "b", wish=wish, workspace=tmp_path / "w", offline=True)
    except NotReady:
        return  # this machine could not build it anyway
    assert not built.ready and "not allowed" in built.verdict and not (tmp_path / "b").exists()


def test_a_place_that_does_not_answer_is_named_as_such(tmp_path: Path) -> None:
    done = up(tmp_path, "--yes", "--index", "http://no-such-name.invalid/simple")
    assert done.returncode == 1
    assert "no network" in done.stderr and "no-such-name.invalid" in done.stderr
    assert all(word in done.stderr for word in ("--index", "--find-links", "--offline"))
    assert not (tmp_path / "w s/envs").exists()


def test_a_system_python_that_is_not_to_be_touched_is_told_before_pip_says_it(tmp_path: Path) -> None:
    fixed = Path(f"/usr/lib/python{sys.version_info[0]}.{sys.version_info[1]}/EXTERNALLY-MANAGED")
    if not (fixed.exists() and Path("/usr/bin/python3").exists()):
        pytest.skip("this system's Python takes packages")
    done = up(tmp_path, "--yes", "--python", "/usr/bin/python3")
    assert done.returncode == 1 and "PEP 668" in done.stderr and "--venv .venv" in done.stderr
