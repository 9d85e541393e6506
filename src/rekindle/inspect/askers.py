"""Who asks the CPU what it can do, and where the answer is kept.

A function asks if it executes CPUID (or reads HWCAP), reads a variable that such a function fills, or calls a small
function that does one of these. Without symbols these variables have no names; they are recognised because asking
functions write them, or hand them on to be written.
"""

from collections.abc import Callable

import numpy as np

from rekindle.formats.code_scan import Flags, Ints, unpack
from rekindle.formats.elf import Elf
from rekindle.inspect.isa_scan import LibraryScan

# A caller asks the CPU also through a small function in between (init_simd -> cpu_support -> cpuid).
SMALL = 1024
# An asker that takes a variable's address fills it as a whole: cpuinfo_isa has 50 bytes, OpenCV's table 512.
FIELDS = 64
WIDE = 512
# A caller of the asking function that keeps the answers is a small function too, and writes few variables.
MOST_KEPT = 24


def find_state(library: LibraryScan, asking: set[int], callers: Callable[[int], list[int]]) -> Ints:
    """Addresses of variables that hold what is known of the CPU, as (low, high) rows: sorted, none touches another."""
    function, address, write = unpack(library.scan.touches, library.variables)
    slots = set(library.references.imports)
    cookie = getattr(library.binary, "cookie", None)
    size = library.functions.end - library.functions.start
    rows: list[tuple[int, int]] = []

    # Variables proper, without tables that are read-only once the loader is done.
    named = (part for part in library.binary.sections if part.name in (".data", ".bss", ".ldata", ".lbss"))
    data = [(part.address, part.address + part.size) for part in named] if isinstance(library.binary, Elf) else []
    pointer_at, pointer_to = library.references.pointers[:, 0], library.references.pointers[:, 1]

    def written(number: int) -> list[int]:
        low, high = np.searchsorted(function, [number, number + 1])
        targets = address[low:high][write[low:high]].tolist()
        # A variable that others may replace is written through its slot in the offset table.
        place = np.searchsorted(pointer_at, address[low:high])
        has_slot = place < len(pointer_at)
        has_slot[has_slot] = pointer_at[place[has_slot]] == address[low:high][has_slot]
        through = pointer_to[place[has_slot]].tolist()
        targets += [start for start in through if any(begin <= start < end for begin, end in data)]
        return [start for start in targets if start not in slots and start != cookie]

    for number in asking:
        rows += [(start, start + FIELDS) for start in written(number)]
        for caller in callers(number):
            if caller in asking or (size[caller] > SMALL and not _runs_at_load(library, caller)):
                continue
            variables = written(caller)
            if len(variables) <= MOST_KEPT:
                rows += [(start, start + (WIDE if _runs_at_load(library, caller) else FIELDS)) for start in variables]
    state = _join_spans(rows)
    # A pointer to such a variable (OpenCV's currentFeatures, a slot of the offset table) is one as well.
    rows += [(start, start + 8) for start in pointer_at[_in_spans(pointer_to, state)].tolist()]
    # Joined once more: such a slot may lie inside a wider variable, or at its end.
    return _join_spans(rows)


def _runs_at_load(library: LibraryScan, number: int) -> bool:
    return bool(np.isin(library.functions.start[number], library.references.started))


def _join_spans(rows: list[tuple[int, int]]) -> Ints:
    """The same stretches sorted, with those that overlap or touch made one."""
    out: list[list[int]] = []
    for low, high in sorted(rows):
        if out and low <= out[-1][1]:
            out[-1][1] = max(out[-1][1], high)
        else:
            out.append([low, high])
    return np.array(out, np.int64).reshape(-1, 2)


def _in_spans(address: Ints, state: Ints) -> Flags:
    """Which addresses lie in one of the rows; looks only at the nearest row before, so the rows must be joined."""
    if not len(state):
        return np.zeros(len(address), bool)
    place = np.searchsorted(state[:, 0], address, "right") - 1
    nearest = np.maximum(place, 0)
    return np.asarray((place >= 0) & (address < state[nearest, 1]))


def readers_of(library: LibraryScan, state: Ints) -> set[int]:
    """Functions with an operand in one of these variables (rows as ``find_state`` gives them)."""
    function, address, _ = unpack(library.scan.touches, library.variables)
    return set(np.unique(function[_in_spans(address, state)]).tolist())
