"""The compiled-in list of architectures out of a deflated library, without inflating all of it: one string of 35 MB
then costs a few hundred kilobytes.

Linkers put the constants right behind the code. So the end of the code is looked for by halves, each time with one
small stretch of the compressed bytes, and from there on the constants are read until the list is met. A list that is
not wholly known, or not found so, gives None: then the library is read as a whole.

A deflated member is one chain of blocks, each with its own code tables. Only a few places look like the header of one,
and only a real one decodes to the end of the stretch. What a block copies from before the stretch stays unknown; those
bytes are marked (:data:`UNKNOWN`), so that nobody takes them for content.
"""

import contextlib
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from rekindle.formats.code_scan import BYTE
from rekindle.inspect.declared import LEAST_LIST, arch_lists_in, longest_list
from rekindle.inspect.gpu import GpuTarget

# Servers are asked for whole blocks of this size, and a block of a compressor is smaller.
BLOCK = 1 << 16
HALVINGS = 5
# Constants of libtorch_python take about 400 kB.
STEP, MOST = 2 * BLOCK, 24 * BLOCK
# Below this, reading it whole costs no more.
LEAST_STORED = 1 << 20
_X86 = (b"\x48\x8b", b"\x48\x89", b"\x48\x8d", b"\x4c\x89", b"\x4c\x8b")
_X86_SHARE = 0.005
# The first bytes of what compilers write most for AArch64: add, ldr, str, stp, ldp, mov, adrp, bl, b, cbz …
_ARM_FIRST = "10 14 17 34 35 36 37 39 52 54 6D 90 91 94 97 A8 A9 AA B0 B4 B5 B9 D0 D1 D2 D6 EB F0 F1 F8 F9"
_ARM = np.isin(BYTE, list(bytes.fromhex(_ARM_FIRST)))
_ARM_SHARE = 0.7
# No byte says "unknown", so two fillings are tried and where they differ nothing is known; this is put there.
UNKNOWN = 0xFF
_WINDOW = 1 << 15
_FILLINGS = (b"\xfe" * _WINDOW, b"\xff" * _WINDOW)
# A false start fails within a few symbols; a stretch this long without a fault is no accident.
LEAST_INFLATED = 1 << 14
MOST_INFLATED = 64 << 20
_ORDER = 19


def find_list(stored: Callable[[int, int], bytes], size: int, shift: int) -> tuple[GpuTarget, ...] | None:
    """``stored`` gives ``size`` compressed bytes; ``shift``: where they begin in the file, modulo a block."""
    if size < LEAST_STORED:
        return None
    low, high = 0, size
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        middle = max(0, middle - (middle + shift) % BLOCK)
        piece = stored(middle, BLOCK)
        if (block := find_block(piece)) is None:
            return None
        is_code = looks_like_code(inflate_from(piece, block))
        low, high = (middle, high) if is_code else (low, middle)
    read = stored(low, BLOCK)
    block = find_block(read)
    while block is not None and len(read) < min(MOST, size - low):
        read += stored(low + len(read), STEP)
        best = longest_list(set(whole_lists(inflate_from(read, block))))
        if len(best) >= LEAST_LIST:
            return best
    return None


def whole_lists(data: bytes) -> list[tuple[GpuTarget, ...]]:
    """Complete lists only: none that begins right behind unknown bytes."""
    # Unknown bytes are cut out with the word that touches them.
    pieces = (piece.partition(b"\0") for piece in data.split(bytes([UNKNOWN])))
    return [found for _, mark, words in pieces for found in arch_lists_in(mark + words) if mark]


def looks_like_code(data: bytes) -> bool:
    """Are these bytes machine code, as far as they are known?"""
    known_size = len(data) - data.count(UNKNOWN)
    if sum(map(data.count, _X86)) > _X86_SHARE * known_size:
        return True
    for phase in range(4):
        words = np.frombuffer(data, np.uint8)[phase : phase + (len(data) - phase) // 4 * 4].reshape(-1, 4)
        words = words[(words != UNKNOWN).all(axis=1)]
        if len(words) > 64 and _ARM[words[:, 3]].mean() > _ARM_SHARE:
            return True
    return False


def find_block(piece: bytes) -> tuple[int, int] | None:
    """(bit, byte) of the first block that begins in this stretch; None where none does or too little follows it."""
    for phase, at in _possible_starts(piece):
        if len(_decode(_shift_bits(piece[at:], phase), _FILLINGS[0])) >= LEAST_INFLATED:
            return phase, at
    return None


def inflate_from(piece: bytes, block: tuple[int, int]) -> bytes:
    """What follows a block's beginning, as far as the stretch goes."""
    shifted = _shift_bits(piece[block[1] :], block[0])
    first, second = (_decode(shifted, filling) for filling in _FILLINGS)
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


def _decode(piece: bytes, filling: bytes) -> bytes:
    with contextlib.suppress(zlib.error):
        return zlib.decompressobj(-zlib.MAX_WBITS, zdict=filling).decompress(piece, MOST_INFLATED)
    return b""


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
