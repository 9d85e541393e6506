"""Companions go in by a real pip, under constraints; one that wants another torch is left out, and said."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

import needs
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace
from rekindle.interpreters.installer import Installer
from rekindle.interpreters.packages import look_into
from rekindle.journey.install import InstallOrder, install_companions
from rekindle.model.journey import Installation
from rekindle.model.plan import Companion, Plan, Request
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def companion(name: str, version: str) -> Companion:
    request = Request(name=name, version=version)
    return Companion(name=name, answer="runs", version=version, why="", requests=(request,))


@needs.venv()
def test_constraints_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheels = tmp_path / "wheels"
    torch = make_wheel(wheels, "torch", "2.6.0+cpu")
    make_wheel(wheels, "torch", "2.9.1")
    make_wheel(wheels, "picky", "1.0", metadata="Requires-Dist: torch==2.9.1\n")
    make_wheel(wheels, "easy", "1.0", metadata="Requires-Dist: torch>=2.0\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    python = str(tmp_path / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", str(torch)], check=True
    )
    host, heard = LiveHost(), Heard()
    before = look_into(host, python)
    none = Companion(name="flash-attn", answer="none", why="It needs sm_80.")
    plan = Plan(answer="install", torch="2.6.0", companions=(companion("picky", "1.0"), companion("easy", "1.0"), none))
    installed = Installation(python=python, packages=before.versions, fingerprint=before.fingerprint, log="")
    requests = (Request(name="torch", version="2.6.0+cpu"),)
    order = InstallOrder(
        host=host,
        python=python,
        plan=plan,
        workspace=Workspace(tmp_path / "ws"),
        progress=heard,
        installer=Installer(links=(str(wheels),), offline=True),
    )
    after = install_companions(order, requests, installed)
    assert after.packages["torch"] == "2.6.0+cpu"
    assert after.packages["easy"] == "1.0"
    assert "picky" not in after.packages
    assert after.fingerprint != before.fingerprint
    assert any(note.startswith("NumPy is not installed") for note in heard.notes)
    # Without NumPy torch warns when it is imported, so it comes along, as the plan limits it.
    make_wheel(wheels, "numpy", "1.26.4")
    make_wheel(wheels, "numpy", "2.9.0")
    old = Plan(answer="install", torch="2.6.0", numpy="<2")
    after = install_companions(dataclasses.replace(order, plan=old), requests, installed)
    assert after.packages["numpy"] == "1.26.4" and after.packages["torch"] == "2.6.0+cpu"
    assert any(note.startswith("picky 1.0 is not installed") for note in heard.notes)
    assert any("flash-attn is not installed (none)" in note for note in heard.notes)
