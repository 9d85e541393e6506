"""Carrying out a plan's commands: only pip lines, never a shell."""

from __future__ import annotations

import sys

import pytest

from rekindle.errors import BadInput, MissingTool
from rekindle.journey.install import adapted, find_python, pip_arguments
from rekindle.model.machine import Machine, Os, Python


def test_only_pip_install_lines_are_carried_out() -> None:
    commands = (
        "sudo apt install nvidia-driver-580",
        "pip install torch==2.7.1 --index-url https://example.org/whl/cu126  # for sm_61",
        "python3.11 -m pip install 'numpy<2'",
        "py -3.12 -m pip install wheel",
    )
    assert pip_arguments(commands) == [
        ["torch==2.7.1", "--index-url", "https://example.org/whl/cu126"],
        ["numpy<2"],
        ["wheel"],
    ]


@pytest.mark.parametrize("command", ["rm -rf /", "pip install", "pip download torch", "sh -c 'pip install x'"])
def test_anything_else_is_refused(command: str) -> None:
    with pytest.raises(BadInput):
        pip_arguments([command])


def test_shell_syntax_stays_an_argument() -> None:
    assert pip_arguments(["pip install torch; rm x"]) == [["torch;", "rm", "x"]]


def test_the_wanted_python_is_found_or_the_way_to_get_it_is_told() -> None:
    machine = Machine(os=Os(system="linux"), pythons=(Python(version="3.8.18", path="/opt/py38/bin/python"),))
    assert find_python(machine, None) == sys.executable
    assert find_python(machine, "3.8") == "/opt/py38/bin/python"
    with pytest.raises(MissingTool, match=r"Python 3\.7"):
        find_python(machine, "3.7")


def test_another_index_replaces_the_plans() -> None:
    asked = ["torch==2.7.1", "torchvision==0.22.1", "--index-url", "https://example.org/whl/cu126"]
    assert adapted(asked, index="https://mirror/simple", torch_only=False) == [
        "torch==2.7.1", "torchvision==0.22.1", "--index-url", "https://mirror/simple",
    ]  # fmt: skip
    assert adapted(asked, index="default", torch_only=True) == ["torch==2.7.1"]
    assert adapted(asked, index=None, torch_only=False) == asked
