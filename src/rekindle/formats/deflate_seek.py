"""Deflate entered in the middle: a stretch of compressed bytes is read without what stands before it.

A deflated member is one chain of blocks, each with its own code tables. Where a block begins is told by its header:
only a few places look like one, and only a real one decodes to the end of the stretch. What a block copies from before
the stretch stays unknown, so those bytes are marked (:data:`UNKNOWN`) and whoever looks for something does not take
them for content. One string of a 35 MB library then costs a few hundred kilobytes instead of all of it.
"""

import zlib
from typing import Any

import numpy as np

# No byte says "unknown", so two fillings are tried and where they differ nothing is known; this is put there.
UNKNOWN = 0xFF
_WINDOW = 1 << 15
_FILLINGS = (b"\xfe" * _WINDOW, b"\xff" * _WINDOW)
# A false start fails within a few symbols; a stretch this long without a fault is no accident.
LEAST = 1 << 14
MOST = 64 << 20
_ORDER = 19


def find_block(piece: bytes) -> tuple[int, int] | None:
    """(bit, byte) of the first block that begins in this stretch; None where none does or too little follows it."""
    for phase, at in _possible_starts(piece):
        inflated = _decode(_shift_bits(piece[at:], phase), _FILLINGS[0])
        if inflated is not None and len(inflated) >= LEAST:
            return phase, at
    return None


def inflate_from(piece: bytes, block: tuple[int, int]) -> bytes:
    """What follows a block's beginning, as far as the stretch goes."""
    shifted = _shift_bits(piece[block[1] :], block[0])
    first, second = (_decode(shifted, filling) or b"" for filling in _FILLINGS)
    size = min(len(first), len(second))
    left, right = (np.frombuffer(out, np.uint8, count=size) for out in (first, second))
    return bytes(np.where(left == right, left, UNKNOWN).astype(np.uint8))


def _shift_bits(piece: bytes, phase: int) -> bytes:
    """The stretch from this bit on; deflate fills bytes from their lowest bit."""
    if phase == 0:
        return piece
    raw = np.frombuffer(piece, np.uint8).astype(np.uint16)
    # Of the last byte the upper bits are not there.
    return bytes(((raw[:-1] >> phase) | (raw[1:] << (8 - phase) & 0xFF)).astype(np.uint8))


def _decode(piece: bytes, filling: bytes) -> bytes | None:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS, zdict=filling)
    try:
        return inflater.decompress(piece, MOST)
    except zlib.error:
        return None


def _possible_starts(piece: bytes) -> list[tuple[int, int]]:
    """(bit, byte) of places where the header of a block with tables of its own may stand, in order of place."""
    starts: list[tuple[int, int]] = []
    for phase in range(8):
        code: Any = np.frombuffer(_shift_bits(piece, phase), np.uint8).astype(np.uint64)
        if len(code) < 16:
            return []
        count = len(code) - 12
        # 74 bits: not the last, kind 2, three counts, then up to 19 lengths of three bits.
        low = sum(code[i : i + count] << np.uint64(8 * i) for i in range(8))
        high = sum(code[i + 8 : i + 8 + count] << np.uint64(8 * i) for i in range(3))
        good = (low & np.uint64(7)) == 4
        good &= (low >> np.uint64(3) & np.uint64(31)) <= 29
        good &= (low >> np.uint64(8) & np.uint64(31)) <= 29
        place = np.flatnonzero(good)
        low, high = low[place], high[place]
        lengths = (low >> np.uint64(13) & np.uint64(15)) + np.uint64(4)
        joined = (low >> np.uint64(17)) | (high << np.uint64(47))
        space = np.zeros(len(place), np.int64)
        for number in range(_ORDER):
            # Bits 47 and on of the 64 lie in ``high``; 19 lengths are 57 bits.
            length = (joined >> np.uint64(3 * number) & np.uint64(7)).astype(np.int64)
            length[lengths <= number] = 0
            space += np.where(length > 0, 128 >> length, 0)
        # Codes that leave nothing over: what a compressor writes.
        starts += [(phase, at) for at in place[space == 128].tolist()]
    return sorted(starts, key=lambda start: start[1] * 8 + start[0])
