"""Where do any of several hundred fixed words stand in a block of bytes?

Two ways with the same answer. For small blocks ``bytes.find`` for each word of which three parts stand there. For
large ones a filter over all positions at once: each word is represented by four of its bytes; numpy looks up a hash of
the four bytes at every position in a 64 Ki table, and only positions that pass are compared with the words themselves.
Which four bytes stand for a word is chosen by what the log at hand is made of: those it contains least.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from rekindle.errors import has_package

SMALL_BYTES = 48 * 1024
GRAM = 4
# The choice of representatives is made anew when more than one place in so many passes the filter.
POOR_SHARE = 400
_MULTIPLIER = 0x9E3779B1
_SHIFT = 16
_STRIDE = 1 << 18
# Of one word no more than so many places at the beginning and as many at the end of a block are told.
MOST = 400
# So many places are looked at one by one; more of them all at once.
FEW = 200
# After a choice of representatives that is no better, so many blocks are read before the next is tried.
PATIENCE = 32


class Words:
    """A fixed set of words to look for; ``find`` gives ``(position, index of the word)`` in order of position."""

    def __init__(self, words: Sequence[bytes]) -> None:
        if any(len(word) < GRAM for word in words):
            raise ValueError(f"a word to scan for needs at least {GRAM} bytes")
        self.words = tuple(words)
        self._longest = max(map(len, words))
        self._by_end: dict[bytes, list[int]] = {}
        for index, word in enumerate(words):
            self._by_end.setdefault(word[-GRAM:], []).append(index)
        self._filter: _Filter | None = None
        self._patience = 0

    def find(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        """Words that begin in ``block[start:stop]``; they may end behind ``stop``."""
        if stop - start <= SMALL_BYTES or not has_package("numpy"):
            return self.find_each(block, start, stop)
        return self.find_all(block, start, stop)

    def find_each(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        hits: list[tuple[int, int]] = []
        last = min(len(block), stop - 1 + self._longest) - GRAM
        there = {block[at : at + GRAM] for at in range(start, last + 1)}
        for index in itertools.chain.from_iterable(self._by_end[end] for end in self._by_end.keys() & there):
            word = self.words[index]
            if word[:GRAM] not in there or word[(len(word) - GRAM) // 2 :][:GRAM] not in there:
                continue
            end = min(len(block), stop - 1 + len(word))
            places = []
            position = block.find(word, start, end)
            while position >= 0:
                places.append(position)
                position = block.find(word, position + 1, end)
            kept = places if len(places) <= 2 * MOST else places[:MOST] + places[-MOST:]
            hits += [(place, index) for place in kept]
        return sorted(hits)

    def find_all(self, block: bytes, start: int, stop: int) -> list[tuple[int, int]]:
        end = min(len(block), stop + self._longest)
        if self._filter is None:
            self._filter = _Filter(self.words, block)
        candidates = self._filter.candidates(block, start, end)
        if not _is_poor(candidates, end - start):
            self._patience = 0
        elif self._patience:
            self._patience -= 1
        elif self._filter.sample is not block:
            # Another kind of text than the one the choice was made for; if no choice is better, it is left for a while.
            self._filter = _Filter(self.words, block)
            candidates = self._filter.candidates(block, start, end)
            self._patience = PATIENCE if _is_poor(candidates, end - start) else 0
        hits: list[tuple[int, int]] = []
        for gram, positions in _by_gram(candidates):
            for offset, word, index in self._filter.owners[gram]:
                hits += [(begin, index) for begin in _places(word, block, positions - offset, start, stop)]
        return sorted(hits)


def _is_poor(candidates: list[tuple[Any, Any]], size: int) -> bool:
    return sum(len(positions) for positions, _ in candidates) > size // POOR_SHARE


def _by_gram(candidates: list[tuple[Any, Any]]) -> list[tuple[int, Any]]:
    """The places of each representative, in order."""
    import numpy as np

    if not any(len(places) for places, _ in candidates):
        return []
    positions = np.concatenate([places for places, _ in candidates])
    grams = np.concatenate([values for _, values in candidates])
    order = np.lexsort((positions, grams))
    positions, grams = positions[order], grams[order]
    firsts = np.flatnonzero(np.diff(grams, prepend=~grams[:1]))
    lasts = [*firsts[1:], len(grams)]
    return [(int(grams[first]), positions[first:last]) for first, last in zip(firsts, lasts, strict=True)]


def _places(word: bytes, block: bytes, begins: Any, start: int, stop: int) -> list[int]:
    """Where of these places the word itself begins: of very many only the first and the last ones."""
    import numpy as np

    begins = begins[(begins >= start) & (begins < stop) & (begins <= len(block) - len(word))]
    if len(begins) <= FEW:
        return [begin for begin in begins.tolist() if block.startswith(word, begin)]
    view = np.frombuffer(block, dtype=np.uint8)
    for at, byte in enumerate(word):
        begins = begins[view[begins + at] == byte]
    if len(begins) > 2 * MOST:
        begins = np.concatenate((begins[:MOST], begins[-MOST:]))
    places: list[int] = begins.tolist()
    return places


def newlines(block: bytes, start: int, stop: int) -> int:
    """``bytes.count`` stops at each one: where lines are short, numpy is several times as fast."""
    if stop - start < _STRIDE // 16 or not has_package("numpy"):
        return block.count(b"\n", start, stop)
    import numpy as np

    return int(np.count_nonzero(np.frombuffer(block, np.uint8, stop - start, start) == ord("\n")))


class _Filter:
    """One choice of representatives, fitted to a sample of the text."""

    def __init__(self, words: Sequence[bytes], sample: bytes) -> None:
        import numpy as np

        self.sample = sample
        counts = np.zeros(1 << 16, dtype=np.int64)
        for _, hashes, _ in _grams(sample, 0, len(sample)):
            counts += np.bincount(hashes, minlength=1 << 16)
        joined = np.frombuffer(b"".join(words) + b"\0" * GRAM, dtype=np.uint8).astype(np.uint32)
        grams = joined[:-3] | joined[1:-2] << 8 | joined[2:-1] << 16 | joined[3:] << 24
        cost = counts[(grams * np.uint32(_MULTIPLIER)) >> np.uint32(_SHIFT)]
        self.owners: dict[int, list[tuple[int, bytes, int]]] = {}
        begin = 0
        for index, word in enumerate(words):
            offset = int(cost[begin : begin + len(word) - GRAM + 1].argmin())
            self.owners.setdefault(int(grams[begin + offset]), []).append((offset, word, index))
            begin += len(word)
        self._sorted = np.array(sorted(self.owners), dtype=np.uint32)
        self._table = np.zeros_like(counts, dtype=np.bool_)
        self._table[(self._sorted * np.uint32(_MULTIPLIER)) >> np.uint32(_SHIFT)] = True

    def candidates(self, block: bytes, start: int, end: int) -> list[tuple[Any, Any]]:
        """Places where the representative of some word stands, and which, stride by stride (there may be very many)."""
        import numpy as np

        strides: list[tuple[Any, Any]] = []
        for first, hashes, view in _grams(block, start, end):
            # Every hash is a place of the table: without looking for ends, and without copying indexes, twice as fast.
            passed = self._table.take(hashes, mode="clip").nonzero()[0]
            values = view[passed]
            places = np.minimum(np.searchsorted(self._sorted, values), len(self._sorted) - 1)
            exact = self._sorted[places] == values
            strides.append((passed[exact] * GRAM + first, values[exact]))
        return strides


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
