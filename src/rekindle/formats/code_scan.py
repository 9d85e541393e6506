"""What a scan of machine code finds, whatever the processor: the ``Scan`` value."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# What tables that are looked up by a byte are made from.
BYTE = np.arange(256)


@dataclass
class Scan:
    """Function numbers count from the library's first; addresses are mapped addresses.

    ``uses`` rows are (function, class, first address, how many). ``calls`` rows are (function, target) of direct calls
    and jumps, ``takes`` of addresses taken; ``reads`` rows are (function, address) of memory operands that hit one of
    the watched addresses; ``touches`` are operands in variables, packed (see :func:`pack`). ``asks`` are functions that
    ask the processor what it is. All but the uses are candidates: bytes that look like it, instruction or not.
    ``legacy`` are functions with SSE of the encoding that AVX replaced."""

    uses: Ints
    calls: Ints
    takes: Ints
    reads: Ints
    touches: Ints
    asks: Ints
    legacy: Ints


@dataclass(frozen=True)
class Variables:
    """Where a library keeps its variables and tables of pointers: one span of addresses that covers them all."""

    low: int
    high: int


NOWHERE = Variables(0, 0)


class Stretch(NamedTuple):
    """Code that is mapped at ``address``, with the functions in it, of which the library's number ``first`` is the
    first. ``targets`` and ``watched`` are sorted addresses worth reporting."""

    code: Bytes
    address: int
    starts: Ints
    ends: Ints
    targets: Ints
    watched: Ints
    variables: Variables = NOWHERE
    first: int = 0

    def holders(self, at: Ints) -> Ints:
        """The functions that hold these addresses, each once."""
        index, inside = owners(at, self.starts, self.ends)
        return np.unique(index[inside]) + self.first

    def pairs(self, at: Ints, target: Ints, among: Ints) -> Ints:
        """(function of ``at``, target) for the targets that are ``among`` sorted addresses; each pair once."""
        if not len(among) or not len(self.starts):
            return np.zeros((0, 2), np.int64)
        near = (target >= among[0]) & (target <= among[-1])
        at, target = at[near], target[near]
        place = np.minimum(np.searchsorted(among, target), len(among) - 1)
        exact = among[place] == target
        index, inside = owners(at[exact], self.starts, self.ends)
        # One number per pair: sorting rows takes ten times as long.
        pairs = np.unique(index[inside] * len(among) + place[exact][inside])
        return np.stack([pairs // len(among) + self.first, among[pairs % len(among)]], axis=1)

    def touches(self, at: Ints, target: Ints, write: Flags) -> Ints:
        """Operands in variables, packed."""
        index, inside = owners(at, self.starts, self.ends)
        inside &= (target >= self.variables.low) & (target < self.variables.high)
        return pack(index[inside] + self.first, target[inside], write[inside], self.variables)


def pack(function: Ints, address: Ints, write: Flags, variables: Variables) -> Ints:
    """One number per (function, address, written or taken), eight bytes instead of twenty-four; each once."""
    return np.unique(function << 33 | (address - variables.low) << 1 | write)


def unpack(touches: Ints, variables: Variables) -> tuple[Ints, Ints, Flags]:
    """(function, address, written or taken) of what :func:`pack` made."""
    return touches >> 33, (touches >> 1 & 0xFFFFFFFF) + variables.low, (touches & 1).astype(bool)


def owners(at: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Flags]:
    """The function that holds each address, and whether one does."""
    index = np.searchsorted(starts, at, "right") - 1
    return index, np.asarray((index >= 0) & (at < ends[np.maximum(index, 0)]))


def displacements(code: Bytes, at: Ints) -> Ints:
    """The signed 32-bit numbers that are stored at these offsets."""
    out = np.zeros(len(at), np.uint32)
    for i in range(4):
        out |= code[at + i].astype(np.uint32) << np.uint32(8 * i)
    return out.astype(np.int32).astype(np.int64)


def adrp_pages(words: Ints) -> Ints:
    """How many pages AArch64's ``adrp`` goes on, for words that are one."""
    pages = (words >> 29 & 3) | (words >> 5 & 0x7FFFF) << 2
    return pages - ((pages >> 20) << 21)


def totals(owner: Ints, kind: Ints, where: Ints) -> Ints:
    """Rows of (function, class, first address, how many)."""
    key = owner * 64 + kind
    order = np.lexsort((where, key))
    unique, position, count = np.unique(key[order], return_index=True, return_counts=True)
    return np.stack([unique // 64, unique % 64, where[order][position], count], axis=1)
