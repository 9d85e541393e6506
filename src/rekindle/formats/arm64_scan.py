"""What a stretch of AArch64 code does, function by function. Instructions are four bytes, so masks suffice."""

from typing import Any

import numpy as np
import numpy.typing as npt

from rekindle.formats.code_scan import Bytes, Ints, Scan, Stretch, adrp_pages, owners, totals
from rekindle.model.toml import read_beside

_TABLE = read_beside(__file__, "arm64.toml", dict[str, Any])
CLASSES = tuple(_TABLE["classes"].split())
ID = {name: number for number, name in enumerate(CLASSES)}
BRANCHES: list[tuple[str, int, int, int, int]] = _TABLE["branches"]
# Where an instruction stands, and the address it makes.
Pairs = tuple[Ints, Ints]
# (class, mask, value)
_PATTERNS = [(ID[name], *row.split()) for name, rows in _TABLE["patterns"].items() for row in rows]


def classify(words: npt.NDArray[np.uint32]) -> Bytes:
    """The class of each word; 0 for what every CPU has."""
    out = np.zeros(len(words), np.uint8)
    for number, mask, value in _PATTERNS:
        out[(words & np.uint32(int(mask, 16))) == np.uint32(int(value, 16))] = number
    return out


def scan(stretch: Stretch) -> Scan:
    """What the code does, for the machine of this module."""
    code, address, starts, ends, targets, watched, _, first = stretch
    # A stretch that begins off the four-byte grid is data; the words start at the next multiple.
    skip = -address % 4
    words = np.frombuffer(code[skip : skip + (len(code) - skip) // 4 * 4].tobytes(), "<u4").astype(np.uint32)
    base = address + skip
    kind = classify(words)
    at = np.flatnonzero(kind)
    where = at * 4 + base
    index, inside = owners(where, starts, ends)
    uses = totals(index[inside], kind[at][inside].astype(np.int64), where[inside])
    # A sixteenth of all words look like SVE, so constants between functions do; code that uses SVE first sets a
    # predicate (ptrue, while), and a function without one has only data that looks like it.
    ptrue = (words & np.uint32(0xFF3EFC10)) == np.uint32(0x2518E000)
    while_ = (words & np.uint32(0xFF20E000)) == np.uint32(0x25200000)
    owner, inside = owners(np.flatnonzero(ptrue | while_) * 4 + base, starts, ends)
    wide = np.isin(uses[:, 1], (ID["sve"], ID["sme"]))
    uses = np.asarray(uses[~wide | np.isin(uses[:, 0], owner[inside])])
    uses[:, 0] += first
    taken, loaded, stored = _find_addresses(words, base)
    # Variables whose address is taken (perhaps to write there) or that are loaded.
    operands = ((*taken, True), (*loaded, False), (*stored, True))
    touched = [stretch.touches(at, target, np.full(len(at), write)) for at, target, write in operands]
    # B and BL; a conditional branch stays within its function.
    branches = np.flatnonzero((words & np.uint32(0x7C000000)) == np.uint32(0x14000000))
    step = (words[branches] & np.uint32(0x3FFFFFF)).astype(np.int64)
    aims = (branches + np.where(step >= 1 << 25, step - (1 << 26), step)) * 4 + base
    calls = stretch.pairs(branches * 4 + base, aims, targets)
    takes, reads = stretch.pairs(*taken, targets), stretch.pairs(*loaded, watched)
    touches, legacy = np.unique(np.concatenate(touched)), np.zeros(0, np.int64)
    asks = stretch.holders(np.flatnonzero((words & np.uint32(0xFFFFF800)) == np.uint32(0xD5380000)) * 4 + base)
    return Scan(uses=uses, calls=calls, takes=takes, reads=reads, touches=touches, asks=asks, legacy=legacy)


def _find_addresses(words: npt.NDArray[np.uint32], base: int) -> list[Pairs]:
    """(where, address) of ``adrp; add`` (address taken), ``adrp; ldr`` (read) and ``adrp; str`` (written)."""
    at = np.flatnonzero((words & np.uint32(0x9F000000)) == np.uint32(0x90000000))
    word = words[at].astype(np.int64)
    where, register = at * 4 + base, word & 31
    page = (where & ~0xFFF) + (adrp_pages(word) << 12)
    pairs: list[list[Pairs]] = [[], [], []]
    # The second half stands right after or a few instructions later.
    for distance in range(1, 6):
        ok = at + distance < len(words)
        second = words[(at + distance)[ok]].astype(np.int64)
        same = (second >> 5 & 31) == register[ok]
        low = second >> 10 & 0xFFF
        add = same & ((second & 0xFFC00000) == 0x91000000)
        pairs[0].append((where[ok][add], page[ok][add] + low[add]))
        for rows, value in zip(pairs[1:], (0x39400000, 0x39000000), strict=True):
            hit = same & ((second & 0x3FC00000) == value)
            rows.append((where[ok][hit], page[ok][hit] + (low[hit] << (second[hit] >> 30))))
    return [(np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows])) for rows in pairs]
