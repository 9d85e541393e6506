"""Applies-To: three-valued, compared as versions; and the header around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import source_mini as mini
from rekindle.errors import BadInput
from rekindle.source.patches import choose, load_patches, parse_patch
from rekindle.source.patches.header import ABSENT, HOME, Context, holds, read_condition


def verdict(lines: str, **facts: str | None) -> str:
    conditions = tuple(read_condition(line, origin="t") for line in lines.splitlines())
    return holds((conditions,), Context({key.replace("_", "-"): value for key, value in facts.items()}))[0]


@pytest.mark.parametrize(
    ("lines", "facts", "expected"),
    [
        ("cmake >=4", {"cmake": "4.0.0"}, "needed"),
        ("cmake >=4", {"cmake": "3.31.6"}, "not-needed"),
        ("cmake >=3.5", {"cmake": "3.13"}, "needed"),
        ("cmake >=4", {}, "unknown"),
        ("cuda <12.9", {"cuda": ABSENT}, "not-needed"),
        ("compiler gcc >=14 | clang >=19 | icx", {"compiler": "gcc 14.2.0"}, "needed"),
        ("compiler gcc >=14 | clang >=19 | icx", {"compiler": "clang 18.1"}, "not-needed"),
        ("compiler gcc >=14 | clang >=19 | icx", {"compiler": "icx 2024.1"}, "needed"),
        ("compiler gcc >=14", {"compiler": "gcc"}, "unknown"),
        ("compiler gcc >=14", {"compiler": "clang 19"}, "not-needed"),
        ("os windows", {"os": "linux"}, "not-needed"),
        ("policy-minimum <3.5", {}, "needed"),
        ("policy-minimum <3.5", {"policy_minimum": "3.5"}, "not-needed"),
        ("version >=1.12, <2.1\nos windows", {"version": "1.13.0", "os": "windows"}, "needed"),
        ("version >=1.12, <2.1\ncmake >=4", {"version": "2.1.0"}, "not-needed"),
        ("version *", {"version": "9.9"}, "needed"),
        ("version >=2.1", {"version": "2.2.0rc1"}, "needed"),
        ("version >=2.2", {"version": "2.2.0rc1"}, "not-needed"),
        ("version >=1, !=2.0.*", {"version": "2.0.1"}, "not-needed"),
        ("version >=2.1", {"version": "master"}, "unknown"),
    ],
)
def test_verdicts(lines: str, facts: dict[str, str], expected: str) -> None:
    assert verdict(lines, **facts) == expected


def test_a_file_condition_looks_into_the_tree(tree: Path) -> None:
    condition = read_condition("file torch/greeting.py contains hello", origin="t")
    assert condition.holds(Context({}, tree)) is True
    assert condition.holds(Context({}, None)) is None
    assert read_condition("file torch/greeting.py contains bye", origin="t").holds(Context({}, tree)) is False
    assert read_condition("file no/such", origin="t").holds(Context({}, tree)) is False


@pytest.mark.parametrize("line", ["color blue", "cmake", "cmake about 4", "version >=x"])
def test_bad_conditions_are_refused(line: str) -> None:
    with pytest.raises(BadInput):
        read_condition(line, origin="t")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("Origin: rekindle\n", ""), "lacks Origin"),
        (lambda text: text.replace("2026-11-15", "yesterday"), "not a date"),
        (lambda text: text.replace("---\n", "", 1), "no line '---'"),
        (lambda text: text.replace("Origin:", "Orign:"), "no header field"),
        (lambda text: "words\n" + text, "no header line"),
    ],
)
def test_bad_headers_are_refused(change: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_patch(change(mini.HEADER + mini.DIFF).encode(), "torch", id="x", origin="x.patch")


def test_of_a_group_only_the_first_counts() -> None:
    header = mini.HEADER.replace("Origin:", "Group: greeting\nOrigin:")
    patches = [parse_patch((header + mini.DIFF).encode(), "torch", id=name, origin=name) for name in ("a", "b")]
    assert [choice.verdict for choice in choose(patches, Context({"version": "1.13"}))] == ["needed", "not-needed"]


def test_an_alternative_block_is_enough() -> None:
    header = mini.HEADER.replace("Last-Update", "Applies-To:\n os windows\nLast-Update")
    patch = parse_patch((header + mini.DIFF).encode(), "torch", id="x", origin="x")
    assert choose([patch], Context({"version": "1.0", "os": "windows"}))[0].verdict == "needed"
    assert choose([patch], Context({"version": "1.0", "os": "linux"}))[0].verdict == "not-needed"


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in HOME.iterdir() if path.is_dir() and path.name[0] != "_")
)
def test_every_patch_we_ship_can_be_read(folder: str) -> None:
    patches = load_patches(folder)
    assert patches and all(patch.title and patch.why for patch in patches)


@pytest.mark.parametrize("line", ["version", "colour red", "file setup.py", "compiler "])
def test_an_example_that_says_nothing_is_named(line: str) -> None:
    from rekindle.source.patches.header import _example

    assert _example("version 2.6.0\n\ncompiler gcc 14.2", "x") == {"version": "2.6.0", "compiler": "gcc 14.2"}
    with pytest.raises(BadInput, match="Example cannot read"):
        _example(line, "x.patch")


def test_a_blank_in_the_trees_own_path_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    condition = read_condition("place blanks", origin="x")
    assert condition.holds(Context(root=tmp_path / "my tree")) is True
    assert condition.holds(Context(root=Path("/plain/tree"))) is False
    assert condition.holds(Context()) is None, "no tree yet"
    assert condition.holds(Context({"place": "plain"}, tmp_path / "my tree")) is False, "what was said wins"
    (tmp_path / "my tree").mkdir()
    monkeypatch.chdir(tmp_path / "my tree")
    assert condition.holds(Context(root=Path())) is True, "given as ., it lies there all the same"
