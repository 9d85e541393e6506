"""What a plan requests, as pip is asked for it: the build itself, never a shell, never another build."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool
from rekindle.journey.install import wanted_from
from rekindle.journey.resolve import exact, groups_of, spoken_packages
from rekindle.journey.target import base_python
from rekindle.model.journey import Package, UpOptions
from rekindle.model.plan import Request

INDEX = "https://example.org/whl/cu126"
TORCH = Request(name="torch", version="2.7.1+cu126", index=INDEX)
VISION = Request(name="torchvision", version="0.22.1+cu126", index=INDEX)
NUMPY = Request(name="numpy", specifier="<2")


def test_requests_of_one_index_go_together_and_a_limit_goes_apart() -> None:
    assert groups_of([TORCH, VISION, NUMPY]) == [[TORCH, VISION], [NUMPY]]


def test_the_pin_names_the_build_itself() -> None:
    assert exact(TORCH) == "torch==2.7.1+cu126"
    assert exact(TORCH, plain=True) == "torch===2.7.1"
    # As text: PEP 440 takes ==2.7.1 for 2.7.1+cu126 too.
    assert exact(Request(name="torch", version="2.7.1")) == "torch===2.7.1"
    assert exact(NUMPY) == "numpy<2"
    assert exact(Request(name="torch", version="2.7.1", extras=("opt",))) == "torch[opt]===2.7.1"
    assert exact(Request(name="torch", url="/w/torch.whl")) == "/w/torch.whl"


@pytest.mark.parametrize("request_", [Request(name="-r/etc/passwd"), Request(name="x", url="--index-url=y")])
def test_an_option_is_no_package(request_: Request) -> None:
    with pytest.raises(BadInput, match="no package"):
        wanted_from([request_])


def test_nothing_to_install_is_said() -> None:
    with pytest.raises(BadInput, match="nothing"):
        wanted_from([])


class _Machine(BareHost):
    """Has one Python, in a place of its own."""

    def which_all(self, name: str) -> tuple[str, ...]:
        return ("/opt/py38/bin/python",) if name == "python3" else ()

    def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, object] | None:
        return {"version": "3.8.18"} if path == "/opt/py38/bin/python" else None


def test_the_wanted_python_is_found_or_the_way_to_get_it_is_told() -> None:
    options = UpOptions()
    assert base_python(_Machine(), options, None) == sys.executable
    assert base_python(_Machine(), options, "3.8") == "/opt/py38/bin/python"
    with pytest.raises(MissingTool, match=r"Python 3\.7"):
        base_python(_Machine(), options, "3.7")


def test_another_index_replaces_the_plans() -> None:
    mirror = "https://mirror/simple"
    assert [one.index for one in wanted_from([TORCH, VISION], index=mirror)] == [mirror, mirror]
    old = Request(name="torch", version="1.10.0+cu113", links="https://example.org/stable.html")
    assert [(one.index, one.links) for one in wanted_from([old], index="default")] == [(None, None)]
    assert [one.name for one in wanted_from([TORCH, VISION, NUMPY], torch_only=True)] == ["torch", "numpy"]


def test_sizes_are_told_and_an_unknown_one_is_called_unknown() -> None:
    large = Package(name="torch", version="2.7.1+cpu", bytes=1_500_000_000)
    small = Package(name="sympy", version="1.14", bytes=2_500_000)
    assert (
        spoken_packages([small, large]) == "2 packages, 1.5 GB to fetch: torch 2.7.1+cpu (1.5 GB), sympy 1.14 (2.5 MB)"
    )
    assert "1 of unknown size" in spoken_packages([large, Package(name="x", version="1")])
    assert spoken_packages([Package(name="x", version="1")]).startswith("1 packages, of unknown size")
    assert spoken_packages([]) == "nothing new is needed"
