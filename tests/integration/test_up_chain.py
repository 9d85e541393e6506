"""Chained digests: a stage of ``up`` is kept only while everything before it is the same, byte for byte."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import tiny_wheels
from rekindle.errors import StageFailed
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import python_of
from rekindle.journey import up
from rekindle.model.journey import UpOptions
from rekindle.model.machine import Examination, Os
from rekindle.model.plan import Plan
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport

pytestmark = [pytest.mark.integration]


def torch_wheel(folder: Path, mark: str = "") -> Path:
    version = f"__version__ = '2.13.0'\ncuda = None\nhip = None\nmark = {mark!r}\n"
    return tiny_wheels.make_wheel(
        folder, "torch", "2.13.0", files={"torch/__init__.py": b"", "torch/version.py": version.encode()}
    )


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("env") / "env"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


Run = Callable[[], dict[str, str]]


@pytest.fixture
def walk(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """``up`` of a source build, with the planner, the compiler and the checks left out: the chain is what is tried."""
    state = SimpleNamespace(wheel=torch_wheel(tmp_path), during=lambda: None, proofs=[])
    examined = Examination(os=Os(system="linux"))
    plan = Plan(answer="build", torch="2.13.0", variant="cpu")

    def verify(**_: object) -> VerifyReport:
        state.during()
        state.proofs.append(1)
        return VerifyReport(verdict="proven", passed=1)

    monkeypatch.setattr(up, "doctor", lambda **_: examined)
    monkeypatch.setattr(up, "make_plan", lambda *_: plan)
    monkeypatch.setattr(up, "verify", verify)
    monkeypatch.setattr(up, "build_from_source", lambda *_: state.wheel)
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    def run() -> dict[str, str]:
        options = UpOptions(python=str(python_of(environment)), torch_only=True)
        journey = up.run_up(Workspace(tmp_path / "work"), options, Silent(), lambda *_: True)
        assert journey.arrived and journey.verification is not None
        assert journey.verification.wheel_sha256 == journey.wheel_sha256
        return {leg.name: leg.status for leg in journey.legs if leg.name in ("install", "verify")}

    state.run = run
    yield state
    for left in environment.rglob("site-packages/torch*"):
        shutil.rmtree(left)


DONE, KEPT = {"install": "done", "verify": "done"}, {"install": "kept", "verify": "kept"}


def test_the_same_wheel_is_kept_and_another_of_the_same_version_is_not(walk: SimpleNamespace, tmp_path: Path) -> None:
    assert walk.run() == DONE
    assert walk.run() == KEPT
    walk.wheel = torch_wheel(tmp_path, "another build of 2.13.0")
    assert walk.run() == DONE and len(walk.proofs) == 2
    assert walk.run() == KEPT


def test_a_changed_environment_is_installed_and_proved_again(walk: SimpleNamespace, environment: Path) -> None:
    walk.run()
    inside = next(environment.rglob("site-packages/torch/__init__.py"))
    inside.write_text("import os  # changed by hand\n")
    assert walk.run() == DONE
    next(environment.rglob("site-packages/torch/version.py")).unlink()
    assert walk.run() == DONE
    assert walk.run() == KEPT


def test_a_wheel_swapped_between_install_and_verify_is_noticed(walk: SimpleNamespace, tmp_path: Path) -> None:
    walk.during = lambda: torch_wheel(tmp_path, "swapped")
    with pytest.raises(StageFailed, match=r"2\.13\.0.* was changed between install and verify") as caught:
        walk.run()
    assert caught.value.exit_code == 1
    walk.during = lambda: None
    assert walk.run() == DONE


def test_an_environment_swapped_while_it_is_proved_is_noticed(walk: SimpleNamespace, environment: Path) -> None:
    walk.during = lambda: next(environment.rglob("site-packages/torch/version.py")).write_text("cuda = '13.0'\n")
    with pytest.raises(StageFailed, match="was changed between install and verify"):
        walk.run()
