"""The compiled-in list of architectures out of a deflated library, without inflating all of it.

Linkers put the constants right behind the code. So the end of the code is looked for by halves, each time with one
small stretch of the compressed bytes, and from there on the constants are read until the list is met. A list that is
not wholly known, or not found so, gives None: then the library is read as a whole.
"""

from collections.abc import Callable

import numpy as np

from rekindle.formats.deflate_seek import UNKNOWN, find_block, inflate_from
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
_ARM = np.isin(np.arange(256), list(bytes.fromhex(_ARM_FIRST)))
_ARM_SHARE = 0.7


def find_list(stored: Callable[[int, int], bytes], size: int, shift: int) -> tuple[GpuTarget, ...] | None:
    """``stored`` gives compressed bytes of the library, of which there are ``size``; ``shift`` is where they begin in
    the file, modulo a block."""
    if size < LEAST_STORED:
        return None
    low, high = 0, size
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        middle = max(0, middle - (middle + shift) % BLOCK)
        piece = stored(middle, BLOCK)
        block = find_block(piece)
        if block is None:
            return None
        if looks_like_code(inflate_from(piece, block)):
            low = middle
        else:
            high = middle
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
    if sum(map(data.count, _X86)) > _X86_SHARE * max(known_size, 1):
        return True
    raw = np.frombuffer(data, np.uint8)
    for phase in range(4):
        words = raw[phase : phase + (len(raw) - phase) // 4 * 4].reshape(-1, 4)
        words = words[(words != UNKNOWN).all(axis=1)]
        if len(words) > 64 and _ARM[words[:, 3]].mean() > _ARM_SHARE:
            return True
    return False
