"""What conditions, tables and advice say exactly at their edges."""

from __future__ import annotations

import pytest

from rekindle.explain.engine import scene_of, unexplained
from rekindle.explain.events import Event
from rekindle.explain.ranking import CONDITIONS, FILLS
from rekindle.explain.scene import Scene, capability, carries, find_carrier, supported
from rekindle.model.arch import Sm
from rekindle.model.facts import Flavour


def event(**values: str) -> Event:
    return Event(line=1, values=values, evidence="", text="", around=values.pop("around", ""), after="")


def scene(log: str = "") -> Scene:
    return scene_of([log.encode()])


def ask(name: str, log: str = "", **values: str) -> bool | None:
    return CONDITIONS[name](event(**values), scene(log))


@pytest.mark.parametrize(
    ("card", "wheel", "newer", "older", "between"),
    [
        ("sm_86", "sm_80 sm_90", False, False, True),
        ("sm_90", "sm_80 sm_90", False, False, True),
        ("sm_100", "sm_80 sm_90", True, False, False),
        ("sm_80", "sm_80 sm_90", False, False, True),
        ("sm_75", "sm_80 sm_90", False, True, False),
        ("sm_90", "sm_90", False, False, True),
        ("sm_90", "", None, None, False),
        ("", "sm_80", None, None, False),
    ],
)
def test_a_card_and_the_list_of_a_wheel(
    card: str, wheel: str, newer: bool | None, older: bool | None, between: bool | None
) -> None:
    values = {name: value for name, value in (("capability", card), ("supported", wheel)) if value}
    assert ask("card-newer-than-wheel", **values) is newer
    assert ask("card-older-than-wheel", **values) is older
    assert ask("card-between", **values) is between


@pytest.mark.parametrize(("card", "answer"), [("sm_90", False), ("sm_100", True), ("sm_121", True), ("", None)])
def test_blackwell_begins_at_ten(card: str, answer: bool | None) -> None:
    values = {"capability": card} if card else {}
    assert ask("card-is-blackwell", **values) is answer
    assert ask("card-is-before-blackwell", **values) is (None if answer is None else not answer)


@pytest.mark.parametrize(
    ("arch", "log", "older", "told"),
    [
        ("compute_37", "", True, True),  # gone from every toolkit of the last years
        ("compute_50", "", True, None),  # too old or too new: nothing tells
        ("compute_70", "", True, None),
        ("compute_50", "Building NVCC (Device) object x.cu.o\n", False, None),
        ("compute_37", "Building NVCC (Device) object x.cu.o\n", True, True),
        ("compute_75", "", False, True),  # no toolkit has dropped it
        ("compute_120", "", False, True),
        ("compute_70", "Cuda compilation tools, release 13.0, V13.0.88\n", True, True),
        ("compute_70", "Cuda compilation tools, release 8.0, V8.0.61\n", False, True),
        ("compute_70", "-- got cuda version 8.0\n", False, True),
        ("compute_60", "nvcc -gencode arch=compute_60,code=sm_60 -gencode arch=compute_90,code=sm_90 \n", True, True),
        ("compute_60", "nvcc -gencode arch=compute_60,code=sm_60 -gencode arch=compute_70,code=sm_70 \n", True, None),
        ("nonsense", "", None, True),
    ],
)
def test_dropped_or_not_known_yet(arch: str, log: str, older: bool | None, told: bool | None) -> None:
    assert ask("arch-is-older-than-toolkit", log, arch=arch) is older
    assert ask("arch-is-newer-than-toolkit", log, arch=arch) is (None if older is None else not older)
    assert ask("toolkit-or-arch-tells", log, arch=arch) is told


@pytest.mark.parametrize(
    ("log", "card"),
    [
        ("NVIDIA GeForce RTX 5090, driver 570\n", Sm(12, 0)),
        ("Tesla K80 | Tesla K80\n", Sm(3, 7)),
        ("running on NVIDIA Thor\n", Sm(11, 0)),
        ("0: NVIDIA GeForce RTX 5090, 32 GB\n1: NVIDIA GeForce RTX 3090, 24 GB\n", None),
        ("0: NVIDIA GeForce RTX 4090, 24 GB\n1: NVIDIA GeForce RTX 4060, 8 GB\n", Sm(8, 9)),
        ("NVIDIA GeForce RTX 9990, of a dream\n", None),
        ("GPU 0 has compute capability 6.1\n", Sm(6, 1)),
        ("needs a GPU with compute capability at least 8.0\n", None),
        ("print(torch.cuda.get_device_capability())\n(8, 6)\n", Sm(8, 6)),
        ("no card at all\n", None),
    ],
)
def test_the_card_is_known_by_its_name_or_its_number(log: str, card: Sm | None) -> None:
    assert capability(event(), scene(log)) == card


def test_what_the_message_says_of_the_card_counts_before_names() -> None:
    assert capability(event(capability="sm_75"), scene("NVIDIA GeForce RTX 5090, driver 570\n")) == Sm(7, 5)


@pytest.mark.parametrize(
    ("log", "archs"),
    [
        ("torch 2.9.1+cu128\n", [Sm(7, 0), Sm(7, 5), Sm(8, 0), Sm(8, 6), Sm(9, 0), Sm(10, 0), Sm(12, 0)]),
        ("torch 2.9.1\n", []),
        ("torch 2.9.1+cpu\n", []),
        ("arch_list: ['sm_80', 'sm_90', 'compute_90']\n", [Sm(8, 0), Sm(9, 0)]),
        ("torch 2.9.1+cu128 arch_list: ['sm_80', 'sm_90']\n", [Sm(8, 0), Sm(9, 0)]),
    ],
)
def test_what_a_wheel_was_built_for_is_read_or_looked_up(log: str, archs: list[Sm]) -> None:
    assert supported(event(), scene(log)) == archs


def test_the_newest_carrier_is_the_newest() -> None:
    here = scene()
    for card in (Sm(5, 0), Sm(6, 1), Sm(7, 5), Sm(9, 0), Sm(12, 0)):
        found = find_carrier(card, here)
        assert found is not None
        rows = [row for row in here.facts.flavours(found.torch) if row.name == found.flavour]
        assert rows and all(carries(row, card, here, native=True) for row in rows)
        newer = here.facts.releases[: here.facts.releases.index(found.torch)]
        assert not any(carries(row, card, here, native=True) for version in newer for row in published(here, version))
        same = [number(row.cuda) for row in published(here, found.torch) if carries(row, card, here, native=True)]
        assert max(same) == number(rows[0].cuda)


def published(here: Scene, version: str) -> list[Flavour]:
    rows = here.facts.flavours(version)
    return [row for row in rows if row.cuda and row.publisher == "pytorch" and row.status == "stable"]


def number(cuda: str | None) -> tuple[int, ...]:
    return tuple(map(int, (cuda or "0").split(".")))


def test_a_card_no_wheel_carries_has_no_carrier() -> None:
    assert find_carrier(Sm(2, 0), scene()) is None
    hint = FILLS["plan-for-card"](event(capability="sm_20"), scene())["plan_hint"]
    assert "No published torch carries sm_20" in hint


@pytest.mark.parametrize(
    ("log", "place"),
    [
        ("src/grid.cpp:88:21: error: expected primary-expression before ',' token\n", "src/grid.cpp:88"),
        ("FrobError: upside down\n", None),
    ],
)
def test_the_place_of_the_error(log: str, place: str | None) -> None:
    said = unexplained(scene(log))
    assert said is not None and said.place == place


@pytest.mark.parametrize(
    ("log", "line"),
    [
        # a build stops at its first error
        ("a.cpp:1:2: error: expected ';'\nb.cpp:3:4: error: expected ')'\nninja: build stopped: failed.\n", 1),
        # a run ends with its last
        ("FirstError: one\n\nDuring handling of the above exception, another occurred:\n\nLastError: two\n", 5),
        # what only warns is no error
        ("UserWarning: FirstError: one\na.cpp:1:2: error: expected ';'\n", 2),
        # an exception after a compile error is its consequence
        ("a.cpp:1:2: error: expected ';'\nRuntimeError: Error compiling objects for extension\n", 1),
        # a driver's word counts where there is nothing else
        ("ninja: build stopped: subcommand failed.\n", 1),
    ],
)
def test_the_first_real_error(log: str, line: int) -> None:
    said = unexplained(scene(log))
    assert said is not None and said.line == line


def test_a_log_without_error_needs_no_help() -> None:
    assert unexplained(scene("fine\nfiner\n")) is None
