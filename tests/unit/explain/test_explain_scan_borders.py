"""The word filter at the edges of blocks, strides and choices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rekindle.explain import scan
from rekindle.explain.scan import Words

KIB = 1024


@pytest.mark.parametrize(
    ("start", "size", "way"), [(0, 48 * KIB, "each"), (0, 48 * KIB + 1, "all"), (9, 48 * KIB, "each")]
)
def test_small_blocks_are_searched_word_by_word(
    monkeypatch: pytest.MonkeyPatch, start: int, size: int, way: str
) -> None:
    monkeypatch.setattr(Words, "find_each", lambda self, block, start, stop: "each")
    monkeypatch.setattr(Words, "find_all", lambda self, block, start, stop: "all")
    assert Words([b"word"]).find(b"", start, start + size) == way  # type: ignore[comparison-overlap]


@pytest.mark.parametrize("way", ["find_each", "find_all"])
@pytest.mark.parametrize(
    ("block", "start", "stop", "places"),
    [
        (b"xxwordxx", 0, 3, [2]),  # begins before the stop, ends behind it
        (b"xxwordxx", 0, 2, []),
        (b"xxwordxx", 2, 8, [2]),
        (b"xxwordxx", 3, 8, []),
        (b"word", 0, 4, [0]),
        (b"xword", 0, 5, [1]),
        (b"xwor", 0, 4, []),
        (b"wordword", 0, 8, [0, 4]),
        (b"wordword", 0, 4, [0]),
        (b"wordword", 0, 5, [0, 4]),
    ],
)
def test_what_begins_in_the_span_is_found(way: str, block: bytes, start: int, stop: int, places: list[int]) -> None:
    assert getattr(Words([b"word"]), way)(block, start, stop) == [(place, 0) for place in places]


@pytest.mark.parametrize("way", ["find_each", "find_all"])
def test_words_that_overlap_themselves(way: str) -> None:
    assert getattr(Words([b"aaaa"]), way)(b"aaaaaa", 0, 6) == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.parametrize("way", ["find_each", "find_all"])
def test_four_hundred_at_each_end(way: str) -> None:
    def places(count: int) -> list[int]:
        return [place // 5 for place, _ in getattr(Words([b"word"]), way)(b"word " * count, 0, 5 * count)]

    assert places(800) == list(range(800))
    assert places(801) == [*range(400), *range(401, 801)]


def test_a_word_at_the_edge_of_a_stride_is_found_once() -> None:
    stride = 1 << 18
    for place in range(stride - 5, stride + 3):
        block = bytearray(b"." * (stride + 100))
        block[place : place + 4] = b"word"
        assert Words([b"word"]).find_all(bytes(block), 0, len(block)) == [(place, 0)]


def test_the_rarest_part_stands_for_a_word() -> None:
    def offset(sample: bytes) -> int:
        [[(at, word, index)]] = scan._Filter([b"aaaabbbb"], sample).owners.values()
        assert (word, index) == (b"aaaabbbb", 0)
        return at

    assert offset(b"") == 0
    assert offset(b"aaaa") == 1  # seen once, at the very beginning of the sample
    assert offset(b"aaaabbb") == 4
    assert offset(b"bbbb" * 50) == 0


def test_places_that_are_not_the_word_are_left_out() -> None:
    block = b"wordwarp"
    assert scan._places(b"word", block, np.array([0, 4]), 0, 8) == [0]


@pytest.mark.parametrize("count", [10, 300])  # one by one, and all at once
def test_places_outside_the_span_are_left_out(count: int) -> None:
    block = b"word" * count + b"wo"
    begins = np.arange(-4, 4 * count + 1, 4)
    every = list(range(0, 4 * count, 4))
    assert scan._places(b"word", block, begins, 0, len(block)) == every
    assert scan._places(b"word", block, begins, 1, len(block)) == every[1:]
    assert scan._places(b"word", block, begins, 4, len(block)) == every[1:]
    assert scan._places(b"word", block, begins, 0, 4 * count - 4) == every[:-1]
    assert scan._places(b"word", block, begins, 0, 4 * count - 3) == every


def test_poor_is_more_than_one_in_four_hundred() -> None:
    def is_poor(places: int, size: int) -> bool:
        half = places // 2
        return scan._is_poor([(range(half), None), (range(places - half), None)], size)

    assert not is_poor(10, 4000) and is_poor(11, 4000)


def test_a_place_that_passes_by_chance_is_no_candidate() -> None:
    chosen = scan._Filter([b"aaaa", b"bbbb"], b"")
    chosen._table[:] = True
    [*found] = chosen.candidates(b"zzzzbbbb", 0, 8)
    assert [place for places, _ in found for place in places.tolist()] == [4]


class Counting:
    """Counts how often representatives are chosen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        plain = scan._Filter

        def make(words: tuple[bytes, ...], sample: bytes) -> Any:
            self.made += 1
            return plain(words, sample)

        monkeypatch.setattr(scan, "_Filter", make)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    return Counting(monkeypatch)


def look(words: Words, block: bytes, start: int = 0) -> None:
    words.find_all(block, start, len(block))


def poor(number: int) -> bytes:
    return b"word " * 2000 + b"%d" % number


def test_other_text_brings_another_choice_then_patience(counting: Counting) -> None:
    words = Words([b"word"])
    look(words, poor(0))
    assert counting.made == 1
    look(words, poor(1))
    assert counting.made == 2
    for number in range(32):
        look(words, poor(number))
    assert counting.made == 2
    look(words, poor(1))
    assert counting.made == 3


def test_a_good_block_ends_patience(counting: Counting) -> None:
    words = Words([b"word"])
    look(words, b"good " * 2000)
    look(words, b"fine " * 2000)
    look(words, poor(1))
    assert counting.made == 2
    look(words, b"good " * 2000)
    look(words, poor(2))
    assert counting.made == 3


def test_a_better_choice_needs_no_patience(counting: Counting) -> None:
    words = Words([b"aaaabbbb"])
    one, other = b"aaaabbb " * 1000, b"bbbb" * 2000
    for at, block in enumerate((one, other, one, other), start=1):
        look(words, block + b"%d" % at)
        assert counting.made == at


def test_only_the_span_that_is_looked_at_counts(counting: Counting) -> None:
    words = Words([b"word"])

    def block(number: int) -> bytes:
        return b" " * 20000 + b"word" * 60 + b" " * 19760 + b"%d" % number  # 60 places in 20000: poor; in 60000: not

    look(words, block(0), 20000)
    look(words, block(1), 20000)
    assert counting.made == 2
    look(words, block(2), 20000)
    assert counting.made == 2
