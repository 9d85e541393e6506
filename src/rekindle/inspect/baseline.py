"""Was a whole library compiled for an instruction set, or only a corner of it?

A compiler told to use SSE4.1 does so wherever it likes, so the functions with it lie all over the code. Copies chosen
at run time come from a few source files and lie together. So the code is cut into windows of equally many functions:
what occurs in many of them belongs to the whole, what occurs in very few was built apart. AVX leaves a second mark:
with it a compiler writes no SSE of the older encoding any more, so a library that has both was not all built for it,
and least of all one with whole stretches of the older kind (Embree has a copy of everything for each of four CPUs).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from rekindle.formats.code_scan import Ints

# Shorter functions seldom have reason for vector code.
LEAST_BYTES = 48
WINDOWS, PER_WINDOW = 64, 32
FEWEST_WINDOWS = 16
MANY, FEW = 0.4, 0.15
# Of the functions with vector code, so many must be AVX's for a library that was all built for it.
MOSTLY = 0.8
# What x86-64-v2 has. Beyond it nobody builds for bit instructions without AVX: where that does not prevail, they are no
# more everybody's than it is (ducc0 has a copy of all its code for each of four CPUs), and where AVX is no more than a
# corner, a function with them is a copy (zstd's bmi2), wherever it lies.
SECOND = frozenset({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"})
_AVX = frozenset({"avx", "avx2", "fma", "f16c", "avx512", "avx512_fp16", "avx_vnni", "avx_ne_convert"})


@dataclass(frozen=True)
class Spread:
    """Instruction sets that a library uses all over, and those of a corner of it."""

    everywhere: frozenset[str] = frozenset()
    few: frozenset[str] = frozenset()


def spread_of(uses: Mapping[int, Iterable[str]], size: Ints, legacy: Ints | None) -> Spread:
    """``legacy``: functions with SSE of the older kind (None: other code). Nothing is said of very small libraries."""
    shares = window_shares(uses, size)
    if legacy is None:
        wide = frozenset(name for name, share in shares.items() if share >= MANY)
        return Spread(wide, frozenset(name for name, share in shares.items() if share <= FEW))
    vex = {number for number, names in uses.items() if not _AVX.isdisjoint(names)}
    old = set(legacy.tolist()) - vex
    prevails = bool(vex) and len(vex) >= MOSTLY * (len(vex) + len(old))
    window, windows = _windows(size)
    balance = Counter(map(window, old))
    balance.subtract(map(window, vex))
    # In how many windows the older encoding prevails; without windows it does in none.
    mostly = prevails and sum(more > 0 for more in balance.values()) <= FEW * windows
    met = SECOND | (shares.keys() if mostly else shares.keys() - _AVX if prevails else frozenset())
    many = {name for name, share in shares.items() if share >= MANY and name in met}
    few = {name for name, share in shares.items() if share <= FEW and not (mostly and name in _AVX)}
    if shares.get("avx", 0.0) <= FEW and not mostly:
        few |= shares.keys() - SECOND - _AVX
    return Spread(frozenset(many - few), frozenset(few))


def window_shares(uses: Mapping[int, Iterable[str]], size: Ints) -> dict[str, float]:
    """The share of windows that each instruction set occurs in."""
    window, windows = _windows(size)
    met: dict[str, set[int]] = {}
    for number, names in uses.items() if windows else ():
        for name in names:
            met.setdefault(name, set()).add(window(number))
    return {name: len(windowed) / windows for name, windowed in met.items()}


def _windows(size: Ints) -> tuple[Callable[[int], int], int]:
    """(window of a function, how many there are); none where there is too little code."""
    big = np.cumsum(size >= LEAST_BYTES)
    count = int((size >= LEAST_BYTES).sum())
    windows = min(WINDOWS, count // PER_WINDOW)
    windows = windows if windows >= FEWEST_WINDOWS else 0
    return lambda number: int(big[number]) * windows // (count + 1), windows
