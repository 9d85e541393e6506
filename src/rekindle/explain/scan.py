"""Where do any of several hundred fixed words stand in a block of bytes?

Two ways with the same answer. For small blocks ``bytes.find`` per word. For large ones a filter over all positions at
once: each word is represented by four of its bytes; numpy looks up a hash of the four bytes at every position in a
64 Ki table, and only positions that pass are compared with the words themselves. Which four bytes stand for a word is
chosen by what the log at hand is made of: those it contains least.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

SMALL_BYTES = 48 * 1024
GRAM = 4
# The choice of representatives is made anew when more than one place in so many passes the filter.
POOR_SHARE = 400
_MULTIPLIER = 0x9E3779B1
_SHIFT = 16
_STRIDE = 1 << 18
# Of one word no more than so many places at the beginning and as many at the end of a block are told.
MOST = 2000


class Words:
    """A fixed set of words to look for; ``find`` gives ``(position, index of the word)`` in order of position."""

    def __init__(self, words: Sequence[bytes]) -> None:
        if any(len(word) < GRAM for word in words):
            raise ValueError(f"a word to scan for needs at least {GRAM} bytes")
        self.words = tuple(words)
        self._longest = max(map(len, words))
        self._filter: _Filter | None = None

    def find(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        """Words that begin in ``block[start:stop]``; they may end behind ``stop``."""
        if stop - start <= SMALL_BYTES:
            return self.find_each(block, start, stop)
        return self.find_all(block, start, stop)

    def find_each(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        hits = _Hits()
        for index, word in enumerate(self.words):
            end = min(len(block), stop - 1 + len(word))
            position = block.find(word, start, end)
            while position >= 0:
                hits.add(position, index)
                position = block.find(word, position + 1, end)
        return hits.sorted()

    def find_all(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        end = min(len(block), stop + self._longest)
        if self._filter is None:
            self._filter = _Filter(self.words, block)
        candidates = self._filter.candidates(block, start, end)
        count = sum(len(positions) for positions, _ in candidates)
        if count > (end - start) // POOR_SHARE and self._filter.sample is not block:
            # Another kind of text than the one the choice was made for.
            self._filter = _Filter(self.words, block)
            candidates = self._filter.candidates(block, start, end)
        hits = _Hits()
        owners = self._filter.owners
        for positions, grams in candidates:
            for position, gram in zip(positions.tolist(), grams.tolist(), strict=True):
                for offset, word, index in owners[gram]:
                    begin = position - offset
                    if start <= begin < stop and block.startswith(word, begin):
                        hits.add(begin, index)
        return hits.sorted()


class _Hits:
    """Places of words, bounded for each."""

    def __init__(self) -> None:
        self._first: list[tuple[int, int]] = []
        self._last: dict[int, collections.deque[int]] = {}
        self._count: collections.Counter[int] = collections.Counter()

    def add(self, position: int, index: int) -> None:
        self._count[index] += 1
        if self._count[index] <= MOST:
            self._first.append((position, index))
        else:
            self._last.setdefault(index, collections.deque(maxlen=MOST)).append(position)

    def sorted(self) -> list[tuple[int, int]]:
        rest = [(position, index) for index, places in self._last.items() for position in places]
        return sorted(self._first + rest)


class _Filter:
    """One choice of representatives, fitted to a sample of the text."""

    def __init__(self, words: Sequence[bytes], sample: bytes) -> None:
        import numpy as np

        self.sample = sample
        counts = np.zeros(1 << 16, dtype=np.int64)
        for _, hashes, _ in _grams(sample, 0, len(sample)):
            counts += np.bincount(hashes, minlength=1 << 16)
        frequency = counts.tolist()
        self.owners: dict[int, list[tuple[int, bytes, int]]] = {}
        for index, word in enumerate(words):
            grams = [int.from_bytes(word[at : at + GRAM], "little") for at in range(len(word) - GRAM + 1)]
            cost = [frequency[(gram * _MULTIPLIER & 0xFFFFFFFF) >> _SHIFT] for gram in grams]
            offset = cost.index(min(cost))
            self.owners.setdefault(grams[offset], []).append((offset, word, index))
        self._sorted = np.array(sorted(self.owners), dtype=np.uint32)
        self._table = np.zeros(1 << 16, dtype=np.bool_)
        self._table[(self._sorted * np.uint32(_MULTIPLIER)) >> np.uint32(_SHIFT)] = True

    def candidates(self, block: bytes, start: int, end: int) -> list[tuple[Any, Any]]:
        """Places where the representative of some word stands, and which, stride by stride (a log may be full of
        them: numbers, not objects)."""
        import numpy as np

        found: list[tuple[Any, Any]] = []
        for first, hashes, view in _grams(block, start, end):
            passed = np.flatnonzero(self._table[hashes])
            values = view[passed]
            places = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
            exact = self._sorted[places] == values
            found.append((passed[exact] * GRAM + first, values[exact]))
        return found


def _grams(block: bytes, start: int, end: int) -> Any:
    """``(position of the first, hashes, values)`` of all four-byte windows, in strides that stay in the cache."""
    import numpy as np

    multiplier, shift = np.uint32(_MULTIPLIER), np.uint32(_SHIFT)
    for begin in range(start, end, _STRIDE):
        for offset in range(GRAM):
            first = begin + offset
            count = (min(begin + _STRIDE + GRAM - 1, end) - first) // GRAM
            if count > 0:
                view = np.frombuffer(block, dtype="<u4", count=count, offset=first)
                yield first, (view * multiplier) >> shift, view
