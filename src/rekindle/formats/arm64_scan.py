"""What a stretch of AArch64 code does, function by function. Instructions are four bytes, so masks suffice.

Encodings after the Arm Architecture Reference Manual (DDI 0487), chapter C4; held against objdump in the
tests. Only what goes beyond ARMv8.0-A with floating point and Advanced SIMD is classed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rekindle.formats.code_scan import NOWHERE, Bytes, Ints, Scan, Variables, matching, owners, pack, summed

CLASSES = (
    "base", "lse", "rdm", "crc32", "fp16", "dotprod", "fcma", "jscvt", "rcpc", "fp16fml", "i8mm", "bf16",
    "sve", "sme", "aes", "sha2", "exclusive",
)  # fmt: skip
ID = {name: number for number, name in enumerate(CLASSES)}
# (class, mask, value)
_PATTERNS = (
    ("lse", 0x3B208C00, 0x38200000), ("lse", 0x3B20FC00, 0x38208000), ("lse", 0x3FA07C00, 0x08A07C00),
    ("lse", 0xBFA07C00, 0x08207C00),
    ("rdm", 0xBF20F400, 0x2E008400), ("crc32", 0x7FE0E000, 0x1AC04000),
    ("dotprod", 0x9FE0FC00, 0x0E809400), ("dotprod", 0x9FC0F400, 0x0F80E000),
    ("fcma", 0xBF20EC00, 0x2E00E400), ("fcma", 0xBF20E400, 0x2E00C400),
    ("jscvt", 0xFFFFFC00, 0x1E7E0000), ("rcpc", 0x3FFFFC00, 0x38BFC000),
    ("fp16fml", 0xBF60FC00, 0x0E20EC00), ("fp16fml", 0xBF60FC00, 0x2E20CC00),
    ("i8mm", 0xDFE0FC00, 0x4E80A400), ("i8mm", 0xFFE0FC00, 0x4E80AC00), ("i8mm", 0xBFE0FC00, 0x0E809C00),
    ("i8mm", 0xBF40F400, 0x0F00F000),
    ("bf16", 0xBFE0FC00, 0x2E40FC00), ("bf16", 0xFFE0FC00, 0x6E40EC00), ("bf16", 0xBFE0FC00, 0x2EC0FC00),
    ("bf16", 0xFFFFFC00, 0x1E634000), ("bf16", 0xBFFFFC00, 0x0EA16800), ("bf16", 0xBFC0F400, 0x0F40F000),
    ("bf16", 0xBFC0F400, 0x0FC0F000),
    ("fp16", 0x9F60C400, 0x0E400400), ("fp16", 0x9F7E0C00, 0x0E780800), ("fp16", 0xBFC0B400, 0x0F001000),
    ("fp16", 0x9FC0F400, 0x0F009000), ("fp16", 0xFFE00C00, 0x1EE00800), ("fp16", 0xFFE00C00, 0x1EE00C00),
    ("fp16", 0xFFE0FC07, 0x1EE02000), ("fp16", 0xFFC00000, 0x1FC00000), ("fp16", 0x7FE0FC00, 0x1EE00000),
    ("fp16", 0xFFE01FE0, 0x1EE01000), ("fp16", 0xFFFE7C00, 0x1EE04000), ("fp16", 0xFFFC7C00, 0x1EE44000),
    ("sve", 0x1E000000, 0x04000000), ("sme", 0x9E000000, 0x80000000),
    ("aes", 0xFFFFCC00, 0x4E284800), ("aes", 0xBFE0FC00, 0x0EE0E000),
    ("sha2", 0xFFE08C00, 0x5E000000), ("sha2", 0xFFFFCC00, 0x5E280800),
    # Load and store exclusive: what a function falls back to where LSE atomics are missing.
    ("exclusive", 0x3FA00000, 0x08000000),
)  # fmt: skip


Pairs = tuple[Ints, Ints, Ints]


def classify(words: npt.NDArray[np.uint32]) -> Bytes:
    out = np.zeros(len(words), np.uint8)
    for name, mask, value in _PATTERNS:
        out[(words & np.uint32(mask)) == np.uint32(value)] = ID[name]
    return out


def scan(
    code: Bytes, address: int, starts: Ints, ends: Ints, targets: Ints, watched: Ints,
    variables: Variables = NOWHERE, *,
    first: int = 0,
) -> Scan:  # fmt: skip
    """``code`` is mapped at ``address``; ``targets`` and ``watched`` are sorted addresses worth reporting."""
    # A stretch that begins off the four-byte grid is data; the words start at the next multiple.
    skip = -address % 4
    words = np.frombuffer(code[skip : skip + (len(code) - skip) // 4 * 4].tobytes(), "<u4").astype(np.uint32)
    base = address + skip
    kind = classify(words)
    at = np.flatnonzero(kind)
    where = at * 4 + base
    index, inside = owners(where, starts, ends)
    uses = _without_data(
        summed(index[inside], kind[at][inside].astype(np.int64), where[inside]), words, base, starts, ends
    )
    calls = _branches(words, base, starts, ends, targets)
    taken, loaded, stored = _addresses(words)
    takes = matching(taken[0] * 4 + base, _page(taken, base), starts, ends, targets)
    reads = matching(loaded[0] * 4 + base, _page(loaded, base), starts, ends, watched)
    touches = np.unique(
        np.concatenate(
            [
                _touches(pairs, base, starts, ends, variables, first, write)
                for pairs, write in ((taken, 1), (loaded, 0), (stored, 1))
            ]
        )
    )
    asks = np.flatnonzero((words & np.uint32(0xFFFFF800)) == np.uint32(0xD5380000)) * 4 + base
    asking, inside = owners(asks, starts, ends)
    asks = np.unique(asking[inside])
    for rows in (uses, calls, takes, reads):
        rows[:, 0] += first
    return Scan(uses, calls, takes, reads, touches, asks + first, np.zeros(0, np.int64))


def _touches(pairs: Pairs, base: int, starts: Ints, ends: Ints, variables: Variables, first: int, write: int) -> Ints:
    """Variables whose address is taken (perhaps to write there) or that are loaded."""
    address = _page(pairs, base)
    owner, held = owners(pairs[0] * 4 + base, starts, ends)
    held &= (address >= variables.low) & (address < variables.high)
    return pack(owner[held] + first, address[held], np.full(int(held.sum()), bool(write)), variables)


def _without_data(uses: Ints, words: npt.NDArray[np.uint32], base: int, starts: Ints, ends: Ints) -> Ints:
    """A sixteenth of all words look like SVE, so constants between functions do; code that uses SVE first sets a
    predicate (ptrue, while), and a function without one has only data that looks like it."""
    ptrue = (words & np.uint32(0xFF3EFC10)) == np.uint32(0x2518E000)
    while_ = (words & np.uint32(0xFF20E000)) == np.uint32(0x25200000)
    owner, inside = owners(np.flatnonzero(ptrue | while_) * 4 + base, starts, ends)
    wide = np.isin(uses[:, 1], (ID["sve"], ID["sme"]))
    return np.asarray(uses[~wide | np.isin(uses[:, 0], owner[inside])])


def _branches(words: npt.NDArray[np.uint32], base: int, starts: Ints, ends: Ints, targets: Ints) -> Ints:
    """B and BL; a conditional branch stays within its function."""
    at = np.flatnonzero((words & np.uint32(0x7C000000)) == np.uint32(0x14000000))
    step = (words[at] & np.uint32(0x3FFFFFF)).astype(np.int64)
    step = np.where(step >= 1 << 25, step - (1 << 26), step)
    return matching(at * 4 + base, at * 4 + base + step * 4, starts, ends, targets)


def _addresses(words: npt.NDArray[np.uint32]) -> tuple[Pairs, Pairs, Pairs]:
    """(place, pages, low bits) of ``adrp; add`` (address taken), ``adrp; ldr`` (read) and ``adrp; str`` (written)."""
    at = np.flatnonzero((words & np.uint32(0x9F000000)) == np.uint32(0x90000000))
    word = words[at].astype(np.int64)
    pages = (word >> 29 & 3) | (word >> 5 & 0x7FFFF) << 2
    pages = np.where(pages >= 1 << 20, pages - (1 << 21), pages)
    register = word & 31
    taken: list[Pairs] = []
    loaded: list[Pairs] = []
    stored: list[Pairs] = []
    # The second half stands right after or a few instructions later.
    for distance in range(1, 6):
        ok = at + distance < len(words)
        second = words[(at + distance)[ok]].astype(np.int64)
        same = (second >> 5 & 31) == register[ok]
        add = same & ((second & 0xFFC00000) == 0x91000000)
        taken.append((at[ok][add], pages[ok][add], second[add] >> 10 & 0xFFF))
        for value, rows in ((0x39400000, loaded), (0x39000000, stored)):
            hit = same & ((second & 0x3FC00000) == value)
            size = second[hit] >> 30
            rows.append((at[ok][hit], pages[ok][hit], (second[hit] >> 10 & 0xFFF) << size))
    return _join(taken), _join(loaded), _join(stored)


def _join(parts: list[Pairs]) -> Pairs:
    return (
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _page(pairs: Pairs, base: int) -> Ints:
    place, pages, low = pairs
    return np.asarray(((place * 4 + base) & ~0xFFF) + (pages << 12) + low, np.int64)
