"""Whose a name is: which part of an event is asked for, and what a row of the tables becomes."""

from __future__ import annotations

import pytest

from rekindle.explain import owners
from rekindle.explain.owners import _headline
from rekindle.explain.ranking import CONDITIONS, FILLS
from rekindle.facts.names import NameOwner, _compiled, load_names, owner_of
from scenes import event, scene

WHOLE = NameOwner(
    match="x", owner="somebody", apt="libx-dev", pip="x", windows="vcpkg install x", submodule=True, came="2.0",
    note="A note.", remedy="Do it.",
)  # fmt: skip
BARE = NameOwner(match="x", owner="somebody")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], NameOwner]:
    """Tables of our own: what is not in them is nobody's."""
    rows: dict[tuple[str, str], NameOwner] = {}
    monkeypatch.setattr(owners, "owner_of", lambda kind, name: rows.get((kind, name)))
    return rows


@pytest.mark.parametrize(
    ("what", "values", "asked"),
    [
        ("header", {"header": r"cub\cub.cuh"}, ("headers", "cub/cub.cuh")),
        ("library", {"library": "/usr/lib/libx.so.1"}, ("libraries", "libx.so.1")),
        ("library", {"dll": r"C:\torch\lib\c10.dll"}, ("libraries", "c10.dll")),
        ("library", {"library": "liba.so", "dll": "b.dll"}, ("libraries", "liba.so")),
        ("link-library", {"library": "cudnn.lib"}, ("libraries", "libcudnn.so")),
        ("link-library", {"library": "libcudnn.so.9"}, ("libraries", "libcudnn.so")),
        ("link-library", {"library": "cudnn"}, ("libraries", "libcudnn.so")),
        ("module", {"module": "sklearn"}, ("modules", "sklearn")),
        ("attribute", {"module": "collections", "name": "Mapping"}, ("attributes", "collections.Mapping")),
        ("command", {"command": "/usr/bin/ninja"}, ("commands", "ninja")),
        ("package", {"package": "Torch"}, ("packages", "Torch")),
        ("symbol", {"symbol": "_ZN1"}, ("symbols", "_ZN1")),
        ("message", {"message": "y" * 400}, ("messages", "y" * 380)),
        ("api", {"message": 'identifier "at::x" is undefined'}, ("apis", "at::x")),
        ("api", {"message": 'identifier "at::n::x" is undefined'}, ("apis", "x")),  # by its last part
        ("status", {"code": "-1073741819"}, ("statuses", "0xC0000005")),
        ("status", {"code": "0xc0000005"}, ("statuses", "0xC0000005")),
        ("status", {"message": "0123"}, ("statuses", "exit 0123")),  # of an #error; Python takes no such number
    ],
)
def test_the_name_that_is_asked_for(
    table: dict[tuple[str, str], NameOwner], what: str, values: dict[str, str], asked: tuple[str, str]
) -> None:
    here = event(values=values)
    assert owners.find_owner(what, here) is None
    assert CONDITIONS[f"{what}-known"](here, scene()) is False
    assert "owner" not in FILLS[f"{what}-owner"](here, scene())
    table[asked] = BARE
    assert owners.find_owner(what, here) is BARE
    assert CONDITIONS[f"{what}-known"](here, scene()) is True
    assert FILLS[f"{what}-owner"](here, scene())["owner"] == "somebody"


@pytest.mark.parametrize(
    ("what", "values"),
    [
        ("header", {}),
        ("library", {}),
        ("link-library", {}),
        ("attribute", {"name": "Mapping"}),
        ("attribute", {"module": "collections"}),
        ("command", {}),
        ("api", {"message": "syntax error"}),
    ],
)
def test_no_name_no_owner(monkeypatch: pytest.MonkeyPatch, what: str, values: dict[str, str]) -> None:
    monkeypatch.setattr(owners, "owner_of", lambda kind, name: BARE)
    assert owners.find_owner(what, event(values=values)) is None


def test_a_name_without_scope_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(owners, "owner_of", lambda kind, name: asked.append(name))
    owners.find_owner("symbol", event(symbol="plain"))
    assert asked == ["plain"]
    owners.find_owner("symbol", event(symbol="a::b::last"))
    assert asked == ["plain", "a::b::last", "last"]


def test_the_whole_scoped_name_counts_before_its_last_part(table: dict[tuple[str, str], NameOwner]) -> None:
    table["symbols", "a::b"], table["symbols", "b"] = WHOLE, BARE
    assert owners.find_owner("symbol", event(symbol="a::b")) is WHOLE


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({}, None),
        ({"came": "2.0"}, "It is there from 2.0 on."),
        ({"gone": "2.8"}, "It is gone since 2.8."),
        ({"came": "2.0", "gone": "2.8"}, "It is gone since 2.8."),
        ({"gone": "2.8", "instead": "std::x"}, "It is gone since 2.8; use std::x instead."),
        ({"came": "2.0", "instead": "y"}, "It is there from 2.0 on; use y instead."),
        ({"instead": "std::x"}, "It has another name now; use std::x instead."),
    ],
)
def test_since_when(table: dict[tuple[str, str], NameOwner], row: dict[str, str], sentence: str | None) -> None:
    table["symbols", "x"] = NameOwner(match="x", owner="somebody", **row)  # type: ignore[arg-type]
    assert FILLS["symbol-owner"](event(symbol="x"), scene()).get("since_sentence") == sentence


def test_a_full_row_says_everything(table: dict[tuple[str, str], NameOwner]) -> None:
    table["symbols", "x"] = WHOLE
    values = FILLS["symbol-owner"](event(symbol="x"), scene())
    assert "git submodule update --init --recursive" in values.pop("submodule_step")
    assert values == {
        "owner": "somebody",
        "pip_name": "x",
        "install": "apt install libx-dev (Debian, Ubuntu), or pip install x, or on Windows: vcpkg install x",
        "owner_note": "A note.",
        "since_sentence": "It is there from 2.0 on.",
        "remedy": "Do it.",
    }
    on_windows = FILLS["symbol-owner"](event(symbol="x"), scene(["windows"]))
    assert on_windows["install"] == "pip install x, or vcpkg install x"


def test_a_bare_row_says_whose_it_is_and_no_more(table: dict[tuple[str, str], NameOwner]) -> None:
    table["symbols", "x"] = BARE
    assert FILLS["symbol-owner"](event(symbol="x"), scene()) == {"owner": "somebody"}


def test_only_a_compilers_message_gives_its_name(table: dict[tuple[str, str], NameOwner]) -> None:
    message = 'identifier "frob" is undefined'
    assert FILLS["api-owner"](event(message=message), scene()) == {"name": "frob"}
    assert FILLS["api-owner"](event(message="nothing"), scene()) == {}
    table["messages", message] = BARE
    assert FILLS["message-owner"](event(message=message), scene()) == {"owner": "somebody"}


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ('namespace "at" has no member "kHalf"', "kHalf"),
        ("'class at::Tensor' has no member named 'data'", "data"),
        ("no member named 'optional' in namespace 'c10'", "optional"),
        ("use of undeclared identifier 'THCState'", "THCState"),
        ("'THCudaCheck' was not declared in this scope", "THCudaCheck"),
        ("too few arguments to function 'void at::f(int)'", "at::f"),
        ("invalid use of 'long_name'", "long_name"),
        ("invalid use of 'x'", None),
        ("no name here", None),
    ],
)
def test_the_name_in_a_compilers_sentence(message: str, name: str | None) -> None:
    assert owners.api_name(event(message=message)) == name


def test_each_table_gives_a_look_up_and_a_question(table: dict[tuple[str, str], NameOwner]) -> None:
    others = {"measured-name", "right-pair", "fitting-release", "model-release", "cuda-majors"}
    assert {f"{what}-owner" for what in owners._NAMED} == set(owners.FILLS) - others
    asked = {"name-of-newer-owner", "name-is-measured", "pair-differs", "two-cuda-majors"}
    assert {f"{what}-known" for what in owners._NAMED} == set(owners.CONDITIONS) - asked
    here = event(symbol="x")
    assert owners.CONDITIONS["symbol-known"](here, scene()) is False
    table["symbols", "x"] = BARE
    assert owners.CONDITIONS["symbol-known"](here, scene()) is True
    assert owners.FILLS["symbol-owner"](here, scene()) == {"owner": "somebody"}


def test_a_name_that_came_later_asks_for_a_newer_owner(table: dict[tuple[str, str], NameOwner]) -> None:
    came_later = CONDITIONS["name-of-newer-owner"]
    here = event(values={"module": "torch", "name": "x"})
    assert came_later(here, scene()) is False
    table["attributes", "torch.x"] = BARE
    assert came_later(here, scene()) is False
    table["attributes", "torch.x"] = WHOLE
    assert came_later(here, scene()) is True


@pytest.mark.parametrize(
    ("owner", "note", "title"),
    [
        ("uv", "Two entries have the same name. Rename one.", "uv: Two entries have the same name"),
        ("vLLM", "vLLM found no platform to run on: its wheel is for CUDA.", "vLLM found no platform to run on"),
        ("the cache", "It is full (100 %), and nothing fits, so it stops.", "the cache: It is full, and nothing fits"),
        ("numpy", "x" * 60 + ", " + "y" * 70, "numpy: " + "x" * 60),
    ],
)
def test_the_title_of_a_known_message_says_what_is_known(owner: str, note: str, title: str) -> None:
    assert _headline(NameOwner(match="m", owner=owner, note=note)) == title


def test_every_known_message_has_a_title() -> None:
    for row in load_names("messages").row:
        assert (title := _headline(row)) and len(title) < 190


def test_a_table_is_compiled_once_however_many_names_are_asked() -> None:
    """Python forgets patterns beyond 512, which made each new message of a log cost a tenth of a second."""
    owner_of("messages", "nothing anybody knows")
    compiled = _compiled.cache_info().misses
    owner_of("messages", "nothing anybody knows either")
    assert _compiled.cache_info().misses == compiled


def test_the_answer_names_the_source_of_its_row_and_else_of_its_rule() -> None:
    from rekindle import api

    said = api.explain("/usr/bin/ld:x.o: file format not recognized; treating as linker script").matches[0]
    (row,) = [row for row in load_names("messages").row if "file format not" in row.match]
    assert said.id == "known-message" and row.source and said.source == row.source
    bare = api.explain("ImportError: libGL.so.1: cannot open shared object file: No such file or directory").matches[0]
    assert bare.source and bare.source.startswith("https://")
