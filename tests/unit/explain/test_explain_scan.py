"""The fast word filter finds exactly what plain searching finds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.explain import scan
from rekindle.explain.scan import FEW, MOST, PATIENCE, Words

_LETTERS = st.binary(min_size=4, max_size=9).map(lambda raw: bytes(97 + byte % 3 for byte in raw))


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(_LETTERS, min_size=1, max_size=12, unique=True),
    text=st.binary(min_size=0, max_size=3000).map(lambda raw: bytes(97 + byte % 3 for byte in raw)),
    start=st.integers(0, 50),
    cut=st.integers(0, 50),
)
def test_both_ways_agree(words: list[bytes], text: bytes, start: int, cut: int) -> None:
    scanner = Words(words)
    start = min(start, len(text))
    stop = max(start, len(text) - cut)
    plain = sorted(
        (place, index)
        for place in range(start, stop)
        for index, word in enumerate(words)
        if text.startswith(word, place)
    )
    assert scanner.find_all(text, start, stop) == scanner.find_each(text, start, stop) == _thinned(plain)


def _thinned(hits: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Of one word the first and the last places."""
    kept = []
    for index in {index for _, index in hits}:
        places = [hit for hit in hits if hit[1] == index]
        kept += places if len(places) <= 2 * MOST else places[:MOST] + places[-MOST:]
    return sorted(kept)


def test_words_across_strides_are_found() -> None:
    rng = random.Random(4)
    text = bytearray(rng.choices(b"abcdefgh \n", k=1_200_000))
    places = sorted([*rng.sample(range(0, len(text) - 20, 40), 300), (1 << 18) - 3, 1 << 18, (1 << 19) - 1])
    for place in places:
        text[place : place + 9] = b"NEEDLE-42"
    scanner = Words([b"NEEDLE-42", b"never there"])
    assert scanner.find_all(bytes(text), 0, len(text)) == scanner.find_each(bytes(text), 0, len(text))


def test_the_choice_is_made_anew_on_other_text() -> None:
    scanner = Words([b"alpha beta"])
    first, second = b"beta " * 40_000, b"alph " * 40_000 + b"alpha beta" + b"alph " * 40_000
    assert scanner.find_all(first, 0, len(first)) == []
    assert scanner.find_all(second, 0, len(second)) == [(200_000, 0)]


@pytest.mark.parametrize("count", [1, FEW - 1, FEW, FEW + 1, 2 * MOST - 1, 2 * MOST, 2 * MOST + 1, 3 * MOST])
def test_crowds_are_found_alike_both_ways(count: int) -> None:
    text = b"".join(b"crow" + (b"d" if at % 2 else b"n") + b"ed hall %d\n" % at for at in range(2 * count))
    scanner = Words([b"crowded", b"crowned", b"hall 7", b"crowd"])
    assert scanner.find_all(text, 0, len(text)) == scanner.find_each(text, 0, len(text))
    assert len([index for _, index in scanner.find_all(text, 0, len(text)) if index == 0]) == min(count, 2 * MOST)


def test_of_a_crowd_the_first_and_the_last_are_told() -> None:
    text = b"word " * (5 * MOST)
    found = [place for place, _ in Words([b"word"]).find_all(text, 0, len(text))]
    assert found[:MOST] == [5 * at for at in range(MOST)]
    assert found[MOST:] == [5 * at for at in range(4 * MOST, 5 * MOST)]


def test_a_choice_that_cannot_be_better_is_left_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plain = scan._Filter

    def count(words: tuple[bytes, ...], sample: bytes) -> object:
        made.append(1)
        return plain(words, sample)

    monkeypatch.setattr(scan, "_Filter", count)
    scanner = Words([b"word"])
    for number in range(2 * PATIENCE + 2):
        block = b"word " * 2000 + b"%d" % number
        assert len(scanner.find_all(block, 0, len(block))) == 2 * MOST
    assert len(made) == 3  # the first, and one after each time of patience
