"""The environment of a build: what goes into it, when it is made again, and what a slow index is told.

A script stands in the place of its pip."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rekindle.errors import BadInput, StageFailed
from rekindle.host.live import LiveHost
from rekindle.interpreters.environment import prepare_target, requirements, take_as_is
from rekindle.model.interpreter import Interpreter

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a POSIX script stands for the environment's Python")

# As pip says it where a mirror first fetches a wheel of 800 MB itself.
SLOW = "ERROR: Could not install packages due to an OSError: (Caused by ReadTimeoutError: Read timed out.)"


def world(folder: Path, pip: str) -> Interpreter:
    """A Python whose ``-m venv`` makes one whose pip is the shell code given; each call of that is kept."""
    python = folder / "python"
    inner = f'#!/bin/sh\n[ "$3" != --version ] || exit 0\necho "$PIP_DEFAULT_TIMEOUT" >> {folder}/calls\n{pip}\n'
    (folder / "inner").write_text(inner, encoding="utf-8")
    script = f'#!/bin/sh\nmkdir -p "$4/bin" && cp {folder}/inner "$4/bin/python" && chmod +x "$4/bin/python"\n'
    python.write_text(script, encoding="utf-8")
    python.chmod(0o755)
    return Interpreter(path=str(python), version="3.13.5", implementation="CPython")


def prepare(folder: Path, pip: str, **env: str) -> tuple[list[str], list[str]]:
    said: list[str] = []
    host = LiveHost()
    host.env = {"PATH": os.environ["PATH"], **env}
    prepare_target(host, world(folder, pip), folder / "env", ["torch==2.6.0"], said.append)
    return said, (folder / "calls").read_text(encoding="utf-8").splitlines()


def test_pins_win_over_the_tree_and_ninja_is_never_from_the_index() -> None:
    pins = {"numpy": "1.24.4", "setuptools": "<60", "ninja": "1.11", "python": "3.11"}
    wanted = requirements(pins, ["setuptools>=70", "PyYAML"], pep517=True)
    assert wanted == ("build", "numpy==1.24.4", "PyYAML", "setuptools<60", "wheel")
    assert "build" not in requirements({}, [], pep517=False)
    with pytest.raises(BadInput, match="no requirement"):
        requirements({}, ["not one !"], pep517=False)


def _prepared(folder: Path, *wanted: str) -> int:
    """Prepare an environment for these; how often pip has been called so far."""
    interpreter = world(folder, "exit 0")
    made = prepare_target(LiveHost(), interpreter, folder / "env", wanted, lambda line: None)
    assert (made.python, made.bin) == (str(folder / "env/bin/python"), folder / "env/bin")
    return len((folder / "calls").read_text(encoding="utf-8").splitlines())


def test_an_environment_that_is_ready_is_left_alone_until_more_is_wanted(tmp_path: Path) -> None:
    assert _prepared(tmp_path, "numpy") == 1
    (tmp_path / "env/mark").touch()
    assert _prepared(tmp_path, "numpy") == 1, "nothing is wanted that is not there"
    assert _prepared(tmp_path, "numpy", "wheel") == 2 and (tmp_path / "env/mark").exists(), "it is completed"
    (tmp_path / "env/bin/python").unlink()
    assert _prepared(tmp_path, "numpy", "wheel") == 3, "its Python was gone"


def test_an_environment_is_made_anew_where_it_was_left_half_or_a_file_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "env/half").mkdir(parents=True)
    assert _prepared(tmp_path, "numpy") == 1 and not (tmp_path / "env/half").exists()
    (tmp_path / "env/mark").touch()
    assert _prepared(tmp_path, "torch @ file:///w.whl") == 2
    assert not (tmp_path / "env/mark").exists(), "pip would leave a wheel of the same version as it is"


def test_a_python_that_makes_no_environment_is_told(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho no module named venv\nexit 1\n", encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    broken = Interpreter(path=str(tmp_path / "python"), version="3.13.5")
    with pytest.raises(StageFailed, match=r"cannot make an environment for Python 3\.13\.5") as refused:
        prepare_target(LiveHost(), broken, tmp_path / "env", ["numpy"], lambda line: None)
    assert refused.value.remedy


def test_what_a_python_lacks_is_named_where_nothing_may_be_installed() -> None:
    here = Interpreter(path=sys.executable, version="3.11.4")
    taken = take_as_is(LiveHost(), here, ["pytest>=1", "packaging"])
    assert (taken.python, taken.bin) == (sys.executable, Path(sys.executable).parent)
    with pytest.raises(BadInput, match=r"lacks pytest<1, no-such-package$") as refused:
        take_as_is(LiveHost(), here, ["pytest<1", "packaging", "no-such-package"])
    assert refused.value.remedy == f"{sys.executable} -m pip install pytest<1 no-such-package"


def test_a_slow_index_is_asked_once_more_with_patience(tmp_path: Path) -> None:
    told = '[ "$PIP_DEFAULT_TIMEOUT $UV_HTTP_TIMEOUT" = "300 300" ]'
    said, calls = prepare(tmp_path, f'{told} || {{ echo "{SLOW}"; exit 1; }}')
    assert calls == ["", "300"]
    assert "the index was slow: once more, waiting up to 300 s for each answer" in said


def test_what_is_no_slowness_is_not_asked_again(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="No matching distribution") as refused:
        prepare(tmp_path, 'echo "ERROR: No matching distribution found for torch==2.6.0"; exit 1')
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == [""]
    assert "PIP_INDEX_URL" in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("env", "calls"), [({}, ["", "300"]), ({"PIP_DEFAULT_TIMEOUT": "7"}, ["7"]), ({"UV_HTTP_TIMEOUT": "7"}, [""])]
)
def test_slow_to_the_end_names_patience_and_not_another_index(
    tmp_path: Path, env: dict[str, str], calls: list[str]
) -> None:
    with pytest.raises(StageFailed, match="Read timed out") as refused:
        prepare(tmp_path, f'echo "{SLOW}"; exit 1', **env)
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == calls
    assert "PIP_DEFAULT_TIMEOUT=900" in (refused.value.remedy or "")
    assert "PIP_INDEX_URL" not in (refused.value.remedy or "")
