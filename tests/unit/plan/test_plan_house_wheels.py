"""Which wheels of a wheelhouse are candidates at all, and with which facts."""

from typing import Any

import pytest
from planning import ask

from rekindle.model.arch import parse_gfx
from rekindle.plan.candidates import Candidate, HouseWheel, house_candidates


def house(**fields: Any) -> HouseWheel:
    given: dict[str, Any] = {"torch": "2.0.1+cu118", "python": "3.10", "platform": "linux_x86_64", "location": "/w"}
    return HouseWheel(**{**given, "cuda": "11.8", "archs": ("3.5",), **fields})


def candidates(*wheels: HouseWheel, gpu: str = "sm_35") -> list[Candidate]:
    return list(house_candidates(wheels, ask(gpu) if gpu else ask()))


@pytest.mark.parametrize(
    ("fields", "gpu", "taken"),
    [
        ({}, "sm_35", True),
        ({}, "gfx90a", False),
        ({"platform": "windows"}, "sm_35", False),
        ({"platform": "linux_aarch64"}, "sm_35", False),
        ({"torch": "2.0.99"}, "sm_35", False),
        ({"cuda": None, "archs": ()}, "sm_35", False),
        ({"cuda": None, "archs": ()}, "", True),
        ({"cuda": None, "rocm": "5.7", "archs": ("gfx90a",)}, "gfx90a", True),
    ],
)
def test_which_are_looked_at(fields: dict[str, Any], gpu: str, taken: bool) -> None:
    assert bool(candidates(house(**fields), gpu=gpu)) is taken


def test_what_is_known_of_one() -> None:
    (one,) = candidates(house(glibc="2.28"))
    assert (one.answer, one.torch, one.cuda, one.rocm, one.python, one.wheel) == (
        "install",
        "2.0.1",
        "11.8",
        None,
        "3.10",
        "/w",
    )
    flavour = one.flavour
    assert flavour is not None
    assert (flavour.torch, flavour.name, flavour.glibc) == ("2.0", "cu118", "2.28")
    assert (flavour.sm, flavour.gfx) == ({"linux_x86_64": ("3.5",)}, {})
    assert flavour.pythons == {"linux_x86_64": ("3.10",)}


def test_amd_code_is_read_as_such() -> None:
    (one,) = candidates(house(torch="2.4.1", cuda=None, rocm="6.1", archs=("gfx90a",)), gpu="gfx90a")
    assert one.flavour is not None
    assert (one.flavour.sm, one.flavour.gfx) == ({}, {"linux_x86_64": (parse_gfx("gfx90a"),)})


@pytest.mark.parametrize(
    ("fields", "name"),
    [({}, "cu118"), ({"torch": "2.0.1"}, "house"), ({"variant": "mine"}, "mine"), ({"torch": "2.0.1+own"}, "own")],
)
def test_its_name(fields: dict[str, Any], name: str) -> None:
    (one,) = candidates(house(**fields))
    assert one.flavour is not None and one.flavour.name == name


def test_one_that_does_not_fit_hides_no_other() -> None:
    wheels = (house(platform="windows"), house(cuda=None, archs=()), house())
    assert len(candidates(*wheels)) == 1
