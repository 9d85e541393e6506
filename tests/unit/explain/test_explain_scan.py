"""The fast word filter finds exactly what plain searching finds."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.explain.scan import Words

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
    assert scanner.find_all(text, start, stop) == scanner.find_each(text, start, stop)


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
