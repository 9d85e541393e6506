"""The text around a word: where its line begins and ends, how many lines, and what of a long one is shown."""

from __future__ import annotations

import pytest

from rekindle.explain.events import evidence, flatten, head, line_bounds, window

TEXT = b"one\ntwo\nthree\nfour\nfive\n"


@pytest.mark.parametrize(
    ("position", "line"),
    [(0, b"one"), (2, b"one"), (3, b"one"), (4, b"two"), (6, b"two"), (7, b"two"), (8, b"three"), (23, b"five")],
)
def test_the_line_at_a_position(position: int, line: bytes) -> None:
    begin, end = line_bounds(TEXT, position)
    assert TEXT[begin:end] == line


def test_a_line_without_an_end_goes_to_the_end_of_the_text() -> None:
    assert line_bounds(b"one\ntwo", 5) == (4, 7)


def test_empty_lines_are_lines() -> None:
    assert line_bounds(b"\nabc", 0) == (0, 0)
    assert line_bounds(b"a\n\nb", 2) == (2, 2)
    assert window(b"a\n\nb\n\nc", 3, before=1, lines=1) == "b"
    assert window(b"a\n\nb\n\nc", 3, before=2, lines=1) == "a b"
    assert window(b"a\n\nb\n\nc", 3, before=0, lines=2) == "b"
    assert window(b"a\n\nb\n\nc", 3, before=0, lines=3) == "b c"


def test_overlong_lines_are_cut_around_the_word() -> None:
    block = b"x" * 20000
    assert line_bounds(block, 10000) == (8000, 14000)
    assert line_bounds(block, 1000) == (0, 5000)
    assert line_bounds(block, 2000) == (0, 6000)
    assert line_bounds(block, 2001) == (1, 6001)
    assert line_bounds(block, 19000) == (17000, 20000)
    assert line_bounds(block, 16000) == (14000, 20000)
    assert line_bounds(block, 15999) == (13999, 19999)


def test_line_ends_just_inside_and_just_outside_the_reach() -> None:
    before = b"\n" + b"x" * 5000
    assert line_bounds(before, 2000)[0] == 1
    assert line_bounds(before, 2001)[0] == 1
    assert line_bounds(before, 2002)[0] == 2
    behind = b"x" * 5000 + b"\n" + b"y" * 5000
    assert line_bounds(behind, 1001)[1] == 5000
    assert line_bounds(behind, 1000)[1] == 5000
    assert line_bounds(behind, 999)[1] == 4999


@pytest.mark.parametrize(
    ("before", "lines", "text"),
    [
        (0, 1, "three"),
        (1, 1, "two three"),
        (2, 1, "one two three"),
        (9, 1, "one two three"),
        (0, 2, "three four"),
        (0, 3, "three four five"),
        (0, 9, "three four five"),
        (1, 2, "two three four"),
    ],
)
def test_as_many_lines_as_were_asked_for(before: int, lines: int, text: str) -> None:
    assert window(TEXT, 10, before=before, lines=lines) == text
    assert window(TEXT[:-1], 10, before=before, lines=lines) == text


def test_the_head_is_of_this_line_alone() -> None:
    assert head(b"INFO: before\nshort\nINFO: after\n", 13) == "short"
    assert head(b"  padded\n", 4) == "padded"
    assert head(b"x" * 59 + b"yz" + b"\n", 30) == "x" * 59 + "y"
    assert head("é".encode() * 40, 0) == "é" * 30


def shown(length: int, at: int) -> str:
    """Evidence of a line whose characters tell their place by tens."""
    line = "".join(chr(ord("a") + place // 10 % 26) for place in range(length))
    return evidence(line.encode(), at)


def test_a_line_of_three_hundred_is_shown_whole() -> None:
    assert len(shown(300, 0)) == 300 and "…" not in shown(300, 299)
    assert len(shown(301, 0)) == 301 and shown(301, 0).endswith("…") and not shown(301, 0).startswith("…")


def test_of_a_longer_one_the_part_around_the_word() -> None:
    line = "".join(chr(0x4E00 + place) for place in range(1000))
    raw = line.encode()

    def at(place: int) -> str:
        return evidence(raw, 3 * place)

    assert at(0) == at(60) == line[:300] + "…"
    assert at(61) == "…" + line[1:301] + "…"
    assert at(500) == "…" + line[440:740] + "…"
    assert at(759) == "…" + line[699:999] + "…"
    assert at(760) == at(999) == "…" + line[700:]


@pytest.mark.parametrize(
    ("raw", "flat"),
    [
        ("#14 31.08   error:  x", "error: x"),
        ("6>error x", "error x"),
        ("2024-01-02T03:04:05.678Z error x", "error x"),
        ("webui_1  | error x", "error x"),
        ("E   error x", "error x"),
        ("[rank0]: error x", "error x"),
        ("‘x’ “y” `z´", "'x' \"y\" 'z'"),
        ("one\n#14 31.08 two", "one two"),
        ("the number 6>5", "the number 6>5"),
    ],
)
def test_framing_and_quotes_are_taken_off(raw: str, flat: str) -> None:
    assert flatten(raw) == flat


def test_very_long_words_lose_their_middle() -> None:
    assert flatten("a" * 359) == "a" * 359
    assert flatten("a" * 200 + "m" * 40 + "z" * 120) == "a" * 200 + "…" + "z" * 120
