"""A real pip and an index of tiny wheels: what is installed is the build that was planned, or nothing is."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tiny_wheels
from rekindle.errors import CommandFailed, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import python_of
from rekindle.interpreters.packages import look_into
from rekindle.journey.install import InstallOrder, foresee, install_requests
from rekindle.model.journey import Installation
from rekindle.model.plan import Plan, Request
from rekindle.model.progress import Silent

pytestmark = [pytest.mark.integration]
PLAN = Plan(answer="install", torch="2.13.0", variant="cpu")


def torch_wheel(
    folder: Path, version: str, *, cuda: str | None = None, says: str | None = None, needs: str = ""
) -> Path:
    source = f"__version__ = {(says or version)!r}\ncuda = {cuda!r}\nhip = None\n"
    files = {"torch/__init__.py": b"", "torch/version.py": source.encode()}
    return tiny_wheels.make_wheel(folder, "torch", version, files=files, metadata=needs)


def index_of(folder: Path, *wheels: Path) -> str:
    """A simple index (PEP 503) of files."""
    pages: dict[str, list[str]] = {}
    for wheel in wheels:
        pages.setdefault(wheel.name.split("-")[0].replace("_", "-"), []).append(
            f'<a href="{wheel.as_uri()}">{wheel.name}</a>'
        )
    for name, links in pages.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "index.html").write_text("<br>".join(links))
    return folder.as_uri() + "/"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's pip settings."""
    import os

    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("env") / "Ümgebung env"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def python(environment: Path) -> Iterator[str]:
    yield str(python_of(environment))
    for left in environment.rglob("site-packages/*"):
        if left.name.startswith(("torch", "nvidia")):
            shutil.rmtree(left)


def asked(index: str | None, version: str = "2.13.0+cpu") -> tuple[Request, ...]:
    return (Request(name="torch", version=version, index=index),)


def order(python: str, workspace: Path) -> InstallOrder:
    return InstallOrder(host=LiveHost(), python=python, plan=PLAN, workspace=Workspace(workspace), progress=Silent())


def up(python: str, requests: tuple[Request, ...], workspace: Path, *, substituted: bool = False) -> Installation:
    foreseen = foresee(order(python, workspace), requests, fresh=False, substituted=substituted)
    return install_requests(order(python, workspace), requests, foreseen)


def test_the_build_that_was_planned_is_taken_though_pip_would_like_another_better(tmp_path: Path, python: str) -> None:
    wheels = tmp_path / "wheels"
    nvidia = tiny_wheels.make_wheel(wheels, "nvidia-cublas", "13.0")
    cuda = torch_wheel(wheels, "2.13.0+cu130", cuda="13.0", needs="Requires-Dist: nvidia-cublas\n")
    index = index_of(tmp_path / "simple", cuda, torch_wheel(wheels, "2.13.0+cpu"), nvidia)
    plain = subprocess.run(
        [python, "-m", "pip", "install", "--dry-run", "torch==2.13.0", "--index-url", index],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "torch-2.13.0+cu130" in plain.stdout, "what pip alone would do"
    done = up(python, asked(index), tmp_path / "work")
    assert done.packages["torch"] == "2.13.0+cpu" and "nvidia-cublas" not in done.packages
    assert done.told is not None and [one.name for one in done.told] == ["torch"]
    assert done.wheel_sha256 == done.told[0].sha256 and done.told[0].bytes
    assert done.fingerprint == look_into(LiveHost(), python).fingerprint


def test_an_index_without_that_build_is_refused_and_nothing_is_installed(tmp_path: Path, python: str) -> None:
    """The case that began it: 2.13.0+cpu was announced, an index had only the CUDA build, called 2.13.0."""
    cuda = torch_wheel(tmp_path, "2.13.0", cuda="13.0", says="2.13.0+cu130")
    index = index_of(tmp_path / "simple", cuda)
    with pytest.raises(StageFailed, match=r"has no torch 2\.13\.0\+cpu; it has 2\.13\.0") as caught:
        up(python, asked(index), tmp_path / "work", substituted=True)
    assert caught.value.remedy and "--variant" in caught.value.remedy
    assert "torch" not in look_into(LiveHost(), python).versions


def test_a_plain_name_that_hides_a_cuda_build_is_noticed_after_the_install(tmp_path: Path, python: str) -> None:
    cuda = torch_wheel(tmp_path, "2.13.0", cuda="13.0", says="2.13.0+cu130")
    with pytest.raises(StageFailed, match="a CPU build was planned"):
        up(python, asked(index_of(tmp_path / "simple", cuda)), tmp_path / "work")


def test_an_index_of_one_flavour_may_leave_the_local_part_out(tmp_path: Path, python: str) -> None:
    index = index_of(tmp_path / "simple", torch_wheel(tmp_path, "2.13.0"))
    assert up(python, asked(index), tmp_path / "work").packages["torch"] == "2.13.0"


def test_a_file_that_was_swapped_after_it_was_told_is_refused(tmp_path: Path, python: str) -> None:
    wheel = torch_wheel(tmp_path, "2.13.0+cpu")
    requests = asked(index_of(tmp_path / "simple", wheel))
    host = LiveHost()
    foreseen = foresee(order(python, tmp_path / "work"), requests, fresh=False, substituted=False)
    torch_wheel(tmp_path, "2.13.0+cpu", says="2.13.0+cpu.evil")
    with pytest.raises(CommandFailed, match=r"(?i)hash"):
        install_requests(order(python, tmp_path / "work"), requests, foreseen)
    assert "torch" not in look_into(host, python).versions


def test_a_wheel_of_ours_goes_in_by_digest_over_one_of_the_same_name(tmp_path: Path, python: str) -> None:
    wheel = torch_wheel(tmp_path / "a", "2.13.0+cpu")
    first = up(python, (Request(name="torch", url=str(wheel)),), tmp_path / "work")
    other = torch_wheel(tmp_path / "b", "2.13.0+cpu", says="2.13.0+cpu ")
    second = up(python, (Request(name="torch", url=str(other)),), tmp_path / "work")
    assert first.fingerprint != second.fingerprint, "the same version, another wheel"
