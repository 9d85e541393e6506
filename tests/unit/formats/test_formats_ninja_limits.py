"""Ninja's log and build file, CMake's cache: each rule of their grammar just inside and just outside."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rekindle.formats import cmake_cache, ninja
from rekindle.formats.cmake_cache import is_true, read_cmake_cache
from rekindle.formats.ninja import (
    BuildEdge,
    Edge,
    latest,
    parse_build_ninja,
    parse_ninja_log,
    read_build_ninja,
    read_ninja_log,
)


def times(*lines: str) -> list[tuple[int, int, tuple[str, ...], int]]:
    return [(edge.start, edge.end, edge.outputs, edge.run) for edge in parse_ninja_log([*lines])]


def test_a_line_of_the_log_is_five_fields_and_an_end() -> None:
    assert times("3\t7\t0\ta.o\tff\n") == [(3, 7, ("a.o",), 0)]
    for broken in (
        "3\t7\t0\ta.o\tff", "3\t7\t0\ta.o\n", "3\t7\t0\ta.o\tff\tx\n", "x\t7\t0\ta.o\tff\n", "3\tx\t0\ta.o\tff\n",
        "-3\t7\t0\ta.o\tff\n", "3\t\t0\ta.o\tff\n", "²\t7\t0\ta.o\tff\n", f"3\t{'9' * 5000}\t0\ta.o\tff\n",
        f"{'9' * 19}\t7\t0\ta.o\tff\n",
    ):  # fmt: skip
        assert times(broken) == [], broken
    assert times(f"3\t{'9' * 18}\t0\ta.o\tff\n")[0][1] == 10**18 - 1


def test_equal_times_and_hash_are_one_command() -> None:
    one = "3\t7\t0\ta\tff\n"
    assert times(one, "3\t7\t0\tb\tff\n", "3\t7\t0\tc\tff\n") == [(3, 7, ("a", "b", "c"), 0)]
    for other in ("4\t7\t0\tb\tff\n", "3\t8\t0\tb\tff\n", "3\t7\t0\tb\tfe\n"):
        assert [outputs for _, _, outputs, _ in times(one, other)] == [("a",), ("b",)]
    # Only the command right before it: the same line later is another run of it.
    assert [outputs for _, _, outputs, _ in times(one, "3\t9\t0\tb\tee\n", one)] == [("a",), ("b",), ("a",)]


def test_a_run_begins_where_the_ends_go_back() -> None:
    rows = [f"0\t{end}\t0\to{number}\th{number}\n" for number, end in enumerate((0, 5, 5, 9, 8, 8, 7, 100))]
    assert [run for *_, run in times(*rows)] == [0, 0, 0, 0, 1, 1, 2, 2]


def test_the_last_time_each_output_was_made() -> None:
    edges = parse_ninja_log(["0\t5\t0\ta\tff\n", "0\t6\t0\tb\tee\n", "0\t3\t0\ta\tdd\n"])
    assert {name: edge.end for name, edge in latest(edges).items()} == {"a": 3, "b": 6}


def test_seconds() -> None:
    edge = Edge(start=500, end=2000, outputs=("a",), hash="f")
    assert edge.seconds == 1.5 and edge.run == 0


MANIFEST = "MAX_MANIFEST_BYTES"
READERS: list[tuple[Any, str, Callable[[Path], Any], str, int, Any]] = [
    (ninja, "MAX_BYTES", read_ninja_log, "3\t7\t0\ta.o\tff\n", 256 << 20, []),
    (ninja, MANIFEST, lambda path: list(read_build_ninja(path)), "build a: b c\n", 512 << 20, []),
    (cmake_cache, "MAX_BYTES", read_cmake_cache, "A:BOOL=ON\n", 64 << 20, {}),
]


@pytest.mark.parametrize(("module", "limit", "read", "text", "most", "nothing"), READERS, ids=["log", "build", "cache"])
def test_files_up_to_a_size(
    module: Any, limit: str, read: Callable[[Path], Any], text: str, most: int, nothing: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert most == getattr(module, limit)
    path = tmp_path / "file"
    assert read(path) == nothing and read(tmp_path) == nothing
    path.write_bytes(text.encode())
    monkeypatch.setattr(module, limit, len(text))
    assert len(read(path)) == 1
    monkeypatch.setattr(module, limit, len(text) - 1)
    assert read(path) == nothing


def _half(_: Path, **__: Any) -> Any:
    @contextlib.contextmanager
    def opened() -> Iterator[Iterator[str]]:
        def lines() -> Iterator[str]:
            yield from ("3\t7\t0\ta.o\tff\n", "A:BOOL=ON\n", "build a: b c\n", "build d: e f\n")
            raise OSError("the disk is gone")

        yield lines()

    return opened()


def test_a_file_that_stops_midway_is_not_taken_for_a_shorter_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a log would call the rest unbuilt, half a cache would call what was set unset."""
    path = tmp_path / "file"
    path.touch()
    monkeypatch.setattr(Path, "open", _half)
    assert read_ninja_log(path) == []
    assert read_cmake_cache(path) == {}
    # Edges are given out as they are read; the one that was being read is not.
    assert [edge.outputs for edge in read_build_ninja(path)] == [("a",)]


def test_bytes_that_are_no_text_are_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"build a\xff: b c\n")
    assert [edge.outputs for edge in read_build_ninja(path)] == [("a\ufffd",)]
    path.write_bytes(b"A:BOOL=\xff\n")
    assert read_cmake_cache(path) == {"A": "\ufffd"}
    path.write_bytes(b"3\t7\t0\ta\xff\tff\n")
    assert read_ninja_log(path)[0].outputs == ("a\ufffd",)


def build(*lines: str) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(edge.rule, edge.outputs, edge.inputs) for edge in parse_build_ninja([line + "\n" for line in lines])]


@pytest.mark.parametrize("dollar", ["", "$$"])
def test_words_of_a_build_line(dollar: str) -> None:
    """Lines with an escape take another way through the reader than lines without; both read the same."""
    name = f"z{dollar}"
    plain = name.replace("$$", "$")
    assert build(f"build {name}: CXX") == [("CXX", (plain,), ())]
    assert build(f"build {name} b  c: CXX d |  e || f |@ g") == [("CXX", (plain, "b", "c"), ("d", "e", "f", "g"))]
    assert build(f"build {name} | b: CXX d") == [("CXX", (plain, "b"), ("d",))]
    assert build(f"build {name}:") == build(f"build {name}") == build(f"build {name}: ") == []
    assert build(f"builds {name}: CXX") == build(f"  build {name}: CXX") == build(f"default {name}: CXX") == []
    assert build(f"build {name}: CXX a : b") == [("CXX", (plain,), ("a", ":", "b"))]


def test_escapes_of_a_build_line() -> None:
    assert build("build a$ b$:c$$d: CXX x") == [("CXX", ("a b:c$d",), ("x",))]
    assert build("build a$ b:CXX x") == [("CXX", ("a b",), ("x",))]
    assert build("build a:b: CXX x") == [("CXX", ("a:b",), ("x",))], "without an escape a colon alone ends nothing"
    assert build("build a$ b: CXX  x$ ") == [("CXX", ("a b",), ("x ",))]


def test_lines_that_go_on() -> None:
    assert build("build a: CXX b $", "  c $", "d") == [("CXX", ("a",), ("b", "c", "d"))]
    assert build("build a: CXX b$", "   c") == [("CXX", ("a",), ("bc",))]
    assert build("build a: CXX b$$", "build c: CXX d") == [("CXX", ("a",), ("b$",)), ("CXX", ("c",), ("d",))]
    assert build("build a: CXX b$$$", "  c") == [("CXX", ("a",), ("b$c",))]
    [edge] = parse_build_ninja(["build a: CXX b $\r\n", " c\r\n", "  F = 1 $\r\n", "    2\r\n"])
    assert edge == BuildEdge(rule="CXX", outputs=("a",), inputs=("b", "c"), variables={"F": "1 2"})


def test_variables_belong_to_the_edge_before_them() -> None:
    lines = [
        "  lost = 1", "build a: CXX b", "  A = x=y ", "  nothing", "  B=", "  C = a$ b$:c$$d", "  D = $x",
        "rule CXX", "  command = gcc", "build c: CXX d", "  A = 2", "", "  A = 3",
    ]  # fmt: skip
    first, second = parse_build_ninja([line + "\n" for line in lines])
    assert first.variables == {"A": "x=y", "B": "", "C": "a b:c$d", "D": "$x"}
    assert second.variables == {"A": "2"}


def cache(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "CMakeCache.txt"
    path.write_text(text, encoding="utf-8")
    return read_cmake_cache(path)


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("A:STRING=''", {"A": ""}),
        ("A:STRING='", {"A": "'"}),
        ("A:STRING=' x", {"A": "' x"}),
        ("A:STRING=x'", {"A": "x'"}),
        ("A:STRING=' x'", {"A": " x"}),
        ("A:STRING=\"x\"", {"A": '"x"'}),
        ('"a b:c=d":PATH=/x', {"a b:c=d": "/x"}),
        ("A-ADVANCED:INTERNAL=1", {"A-ADVANCED": "1"}),
        ("A:lower=1", {}),
        ("A=1", {}),
        (":STRING=1", {}),
        ("#A:STRING=1", {}),
        ("//A:STRING=1", {}),
    ],
)  # fmt: skip
def test_lines_of_the_cache(line: str, entry: dict[str, str], tmp_path: Path) -> None:
    assert cache(tmp_path, f"\n{line}\n") == entry


@pytest.mark.parametrize("value", ["", "0", "off", "no", "n", "false", "ignore", "notfound", "x-notfound", "-NOTFOUND"])
def test_false_to_cmake_in_any_case(value: str) -> None:
    assert not is_true(value) and not is_true(value.upper()) and not is_true(f" {value}\t")
    assert is_true(f"{value}x")
