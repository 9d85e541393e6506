"""Carrying out what a plan requests: argument lists for pip, never a shell."""

from __future__ import annotations

import sys

import pytest

from rekindle.api.journey.install import find_python, to_install
from rekindle.errors import BadInput, MissingTool
from rekindle.model.machine import Machine, Os, Python
from rekindle.model.plan import Request

INDEX = "https://example.org/whl/cu126"
TORCH = Request(name="torch", version="2.7.1+cu126", index=INDEX)
VISION = Request(name="torchvision", version="0.22.1+cu126", index=INDEX)
NUMPY = Request(name="numpy", specifier="<2")


def test_requests_of_one_index_are_one_command_and_a_limit_goes_apart() -> None:
    assert to_install([TORCH, VISION, NUMPY]) == (
        ("torch==2.7.1", "torchvision==0.22.1", "--index-url", INDEX),
        ("numpy<2",),
    )


def test_a_page_of_all_flavours_needs_the_local_part() -> None:
    old = Request(name="torch", version="1.10.0+cu113", links="https://example.org/stable.html")
    assert to_install([old]) == (("torch==1.10.0+cu113", "-f", "https://example.org/stable.html"),)
    assert to_install([old], index="default") == (("torch==1.10.0",),)


@pytest.mark.parametrize("request_", [Request(name="-r/etc/passwd"), Request(name="x", url="--index-url=y")])
def test_an_option_is_no_package(request_: Request) -> None:
    with pytest.raises(BadInput, match="no package"):
        to_install([request_])


def test_nothing_to_install_is_said() -> None:
    with pytest.raises(BadInput, match="nothing"):
        to_install([])


def test_the_wanted_python_is_found_or_the_way_to_get_it_is_told() -> None:
    machine = Machine(os=Os(system="linux"), pythons=(Python(version="3.8.18", path="/opt/py38/bin/python"),))
    assert find_python(machine, None) == sys.executable
    assert find_python(machine, "3.8") == "/opt/py38/bin/python"
    with pytest.raises(MissingTool, match=r"Python 3\.7"):
        find_python(machine, "3.7")


def test_another_index_replaces_the_plans() -> None:
    asked = [TORCH, VISION]
    mirror = "https://mirror/simple"
    assert to_install(asked, index=mirror) == (("torch==2.7.1", "torchvision==0.22.1", "--index-url", mirror),)
    assert to_install(asked, index="default", torch_only=True) == (("torch==2.7.1",),)
