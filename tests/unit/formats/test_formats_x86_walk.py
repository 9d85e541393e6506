"""The walk along instructions: a few functions at once or many, to their ends or to what no CPU has."""

from __future__ import annotations

import numpy as np
import pytest

from rekindle.formats import x86
from rekindle.formats.x86 import walk

BAD, AVX = x86.BAD, x86.ID["avx"]
# One function: plain (2 bytes), avx (3), plain (1), avx (4), plain (2). Marks where no instruction begins are not met.
SIZES = [2, 9, 3, 9, 9, 1, 4, 9, 9, 9, 2, 9]
KINDS = [0, AVX, AVX, AVX, 0, 0, AVX, AVX, 0, BAD, 0, AVX]
LONG = len(SIZES)


def walked(copies: int, kinds: list[int], begin: int = 0, end: int = LONG) -> list[list[tuple[int, int]]]:
    """(offset in its function, class) of what is met in each copy."""
    length = np.array(SIZES * copies, np.uint8)
    isa = np.array(kinds * copies, np.uint8)
    starts = np.arange(copies) * LONG
    at, owner = walk(length, isa, starts + begin, starts + end)
    out: list[list[tuple[int, int]]] = [[] for _ in range(copies)]
    for place, number in sorted(zip(at.tolist(), owner.tolist(), strict=True)):
        out[number].append((place - number * LONG, int(isa[place])))
    return out


@pytest.mark.parametrize("copies", [1, 2, x86.FEW, x86.FEW + 1, 3 * x86.FEW])
def test_what_is_met(copies: int) -> None:
    assert walked(copies, KINDS) == [[(2, AVX), (6, AVX)]] * copies
    assert walked(copies, KINDS, end=7) == [[(2, AVX), (6, AVX)]] * copies
    assert walked(copies, KINDS, end=6) == [[(2, AVX)]] * copies
    assert walked(copies, KINDS, begin=2, end=3) == [[(2, AVX)]] * copies
    assert walked(copies, KINDS, begin=6, end=6) == [[]] * copies
    assert walked(copies, [0] * LONG) == [[]] * copies


@pytest.mark.parametrize("copies", [1, 3 * x86.FEW])
def test_what_no_cpu_has_ends_the_walk_and_is_told(copies: int) -> None:
    bad = [*KINDS[:2], BAD, *KINDS[3:]]
    assert walked(copies, bad) == [[(2, BAD)]] * copies
    last = [*KINDS[:6], BAD, *KINDS[7:]]
    assert walked(copies, last) == [[(2, AVX), (6, BAD)]] * copies


def test_many_of_different_lengths() -> None:
    """Some end early, some meet nothing: each keeps its own number."""
    copies = 2 * x86.FEW
    length, isa = np.array(SIZES * copies, np.uint8), np.array(KINDS * copies, np.uint8)
    starts = np.arange(copies) * LONG
    ends = starts + np.arange(copies) % 8
    at, owner = walk(length, isa, starts, ends)
    want = [(n * LONG + place, n) for n in range(copies) for place in (2, 6) if place < n % 8]
    assert sorted(zip(at.tolist(), owner.tolist(), strict=True)) == sorted(want)


def test_nobody_walks() -> None:
    none = np.zeros(0, np.int64)
    at, owner = walk(np.zeros(0, np.uint8), np.zeros(0, np.uint8), none, none)
    assert at.shape == owner.shape == (0,)
    assert at.dtype == owner.dtype == np.int64
