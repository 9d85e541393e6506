"""Which interpreter gets torch: what an environment or a Python is asked, what is refused, what is kept beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool, NotReady
from rekindle.interpreters.environment import python_of
from rekindle.interpreters.packages import Contents
from rekindle.journey.target import InstallTarget, base_python, next_steps, steps_after_no, wanted_python, write_keeps
from rekindle.model.build import BuildFailure
from rekindle.model.guard import PackageRecord
from rekindle.model.journey import Installation, UpOptions
from rekindle.model.plan import Request


class OnePython(BareHost):
    """Whatever Python is asked says this of itself."""

    def __init__(self, version: str = "3.11.7", system: str = "linux", **more: object) -> None:
        super().__init__(system)
        self.said = {"version": version, **more}

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, object] | None:
        return self.said


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    python = python_of(tmp_path / "env")
    python.parent.mkdir(parents=True)
    python.touch()
    return tmp_path / "env"


def test_an_environment_that_is_there_decides_the_release(environment: Path) -> None:
    assert wanted_python(OnePython(), UpOptions(venv=environment)) == "3.11"
    assert wanted_python(OnePython(), UpOptions(venv=environment, python="3.11.2")) == "3.11"
    assert wanted_python(OnePython(), UpOptions(venv=environment, python="/usr/bin/python3.9")) == "3.11"
    with pytest.raises(BadInput, match=r"an environment of Python 3\.11, and --python 3\.12"):
        wanted_python(OnePython(), UpOptions(venv=environment, python="3.12"))


def test_a_folder_that_is_no_environment_is_left_alone_and_an_empty_one_is_taken(tmp_path: Path) -> None:
    assert wanted_python(OnePython(), UpOptions(venv=tmp_path)) is None
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BadInput, match="is no virtual environment"):
        wanted_python(OnePython(), UpOptions(venv=tmp_path))
    with pytest.raises(BadInput, match="is no virtual environment"):
        wanted_python(OnePython(), UpOptions(venv=tmp_path / "notes.txt"))


def test_a_named_interpreter_is_asked_what_it_is() -> None:
    assert wanted_python(OnePython("3.9.2"), UpOptions(python="/usr/bin/python3")) == "3.9"
    assert wanted_python(OnePython(), UpOptions(python="3.12.1")) == "3.12"
    assert wanted_python(OnePython(), UpOptions()) is None


def test_the_systems_own_python_gets_an_environment_or_nothing(tmp_path: Path) -> None:
    managed = OnePython("3.12.3", externally_managed=True)
    with pytest.raises(NotReady, match="PEP 668") as refused:
        wanted_python(managed, UpOptions(python="/usr/bin/python3"))
    assert "--python 3.12 --venv .venv" in (refused.value.remedy or "")
    assert wanted_python(managed, UpOptions(python="/usr/bin/python3", venv=tmp_path / "new")) == "3.12"


def test_a_new_environment_is_made_with_what_was_named() -> None:
    assert base_python(BareHost(), UpOptions(python="/usr/bin/python3"), "3.9") == "/usr/bin/python3"


@pytest.mark.parametrize(
    ("tools", "system", "line"),
    [
        (("uv", "pyenv", "conda"), "linux", "uv python install 3.7"),
        (("pyenv", "conda"), "windows", "pyenv install 3.7"),
        (("conda",), "windows", "winget install Python.Python.3.7"),
        (("conda",), "linux", "conda create -n py3.7 python=3.7"),
        ((), "linux", "pip install uv, then uv python install 3.7"),
    ],
)
def test_the_way_to_a_missing_python_is_that_of_the_tools_at_hand(
    tools: tuple[str, ...], system: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name, *more: f"/bin/{name}" if name in tools else None)
    with pytest.raises(MissingTool) as refused:
        base_python(BareHost(system), UpOptions(python="3.7"), "3.9")
    assert (refused.value.remedy or "").startswith(f"{line};")


def test_what_was_installed_is_kept_in_three_forms(tmp_path: Path) -> None:
    requests = [Request(name="torch", version="2.7.1+cpu", index="https://example.org/cpu")]
    installed = Installation(python="/p", packages={"torch": "2.7.1+cpu", "sympy": "1.14"}, log="x")
    held = Contents(packages=(PackageRecord(name="Torch", version="2.7.1+cpu", contents="c" * 64),))
    kept = write_keeps(tmp_path, requests, installed, held)
    assert [Path(place).name for place in kept] == ["constraints.txt", "requirements.txt", "pyproject.toml"]
    limits = (tmp_path / "constraints.txt").read_text("utf-8")
    assert "torch==2.7.1+cpu" in limits and "c" * 64 in limits and "sympy" not in limits
    assert "https://example.org/cpu" in (tmp_path / "requirements.txt").read_text("utf-8")
    assert write_keeps(tmp_path / "none", [], installed, held) == () and not (tmp_path / "none").exists()


def test_the_next_steps_lead_into_the_environment(tmp_path: Path) -> None:
    inside = next_steps(InstallTarget(python="/e/bin/python", folder=tmp_path, exists=True), ["/k/a b/constraints.txt"])
    assert "activate" in inside[0] and inside[1].startswith("python -c ")
    assert inside[2].startswith("python -m pip install -c ") and "constraints.txt" in inside[2]
    named = next_steps(InstallTarget(python="/opt/python", folder=None, exists=True), ["/k/pyproject.toml"])
    assert len(named) == 1 and named[0].startswith("/opt/python -c " if os.name != "nt" else "")


def test_after_a_no_the_nearest_witness_is_named() -> None:
    failed = BuildFailure(project="torch", phase="compile", message="x", log="/w/build.log")
    assert steps_after_no(failed, "/p") == ("rekindle explain /w/build.log",)
    without = BuildFailure(project="torch", phase="compile", message="x", log=None)
    assert steps_after_no(without, "/p") == ("rekindle verify --python /p --level full",)
    assert steps_after_no(without) == steps_after_no(None) == ("rekindle plan -v",)
