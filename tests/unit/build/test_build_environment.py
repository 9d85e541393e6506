"""The environment of a build, with a script in the place of its pip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rekindle.errors import StageFailed
from rekindle.host.live import LiveHost
from rekindle.interpreters.environment import prepare_target
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
    prepare_target(
        LiveHost(),
        world(folder, pip),
        folder / "env",
        ["torch==2.6.0"],
        {"PATH": os.environ["PATH"], **env},
        said.append,
    )
    return said, (folder / "calls").read_text(encoding="utf-8").splitlines()


def test_a_slow_index_is_asked_once_more_with_patience(tmp_path: Path) -> None:
    said, calls = prepare(tmp_path, f'[ -n "$PIP_DEFAULT_TIMEOUT" ] || {{ echo "{SLOW}"; exit 1; }}')
    assert calls == ["", "300"]
    assert "the index was slow: once more, waiting up to 300 s for each answer" in said


def test_what_is_no_slowness_is_not_asked_again(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="No matching distribution") as refused:
        prepare(tmp_path, 'echo "ERROR: No matching distribution found for torch==2.6.0"; exit 1')
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == [""]
    assert "PIP_INDEX_URL" in (refused.value.remedy or "")


@pytest.mark.parametrize(("env", "calls"), [({}, ["", "300"]), ({"PIP_DEFAULT_TIMEOUT": "7"}, ["7"])])
def test_slow_to_the_end_names_patience_and_not_another_index(
    tmp_path: Path, env: dict[str, str], calls: list[str]
) -> None:
    with pytest.raises(StageFailed, match="Read timed out") as refused:
        prepare(tmp_path, f'echo "{SLOW}"; exit 1', **env)
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines() == calls
    assert "PIP_DEFAULT_TIMEOUT=900" in (refused.value.remedy or "")
    assert "PIP_INDEX_URL" not in (refused.value.remedy or "")
