"""Who calls whom in one library, and through what: the part of the audit that tells guarded from unguarded.

A *call* is a direct call or jump (also through a call stub). A function whose address is merely *taken* (by an
instruction, a GOT slot or a table in data) may be chosen at run time, which is how dispatch works, so that is
kept apart. Candidates from the scan are confirmed by decoding the caller before anyone relies on them.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict

import numpy as np

from rekindle.formats import x86
from rekindle.formats.code_scan import Bytes, Ints
from rekindle.inspect.askers import SMALL, find_state, readers_of
from rekindle.inspect.guards import short
from rekindle.inspect.isa_scan import LibraryScan
from rekindle.inspect.reach import Edges, pointer_edges

MANY_ASKERS = 64


class CodeGraph:
    def __init__(self, library: LibraryScan, check_function: re.Pattern[str]) -> None:
        self.library = library
        self.functions = library.functions
        self._check = check_function
        # Without symbols of local functions a pointer tells nothing of who may follow it.
        self.named = bool((self.functions.symbol >= 0).any()) and len(self.functions.files) > 0
        references = library.references
        self._pointer_at, self._pointer_to = references.pointers[:, 0], references.pointers[:, 1]
        self._state = set(library.state.tolist())
        self._imports_of: dict[int, list[str]] = defaultdict(list)
        self._caller, self._callee = self._edges(library.scan.calls)
        self._by_callee = Edges(self._callee, self._caller)
        self.by_caller = Edges(self._caller, self._callee)
        self._slots_read = Edges(library.scan.reads[:, 0], library.scan.reads[:, 1])
        self.started = set(self._numbers(references.started).tolist()) - {-1}
        self._resolvers = set(self._numbers(references.resolvers).tolist()) - {-1}
        self._taken = set(self._numbers(np.unique(self._pointer_to)).tolist()) - {-1}
        self._asking = {number for number in library.scan.asks.tolist() if self._really_asks(number)}
        callers = {number for number in self._imports_of if self._imports_of[number]}
        # Where many ask and functions have names (torch), the names tell; what all of them write is half the library.
        by_name = self.named and len(self._asking | callers) > MANY_ASKERS
        state = find_state(library, set() if by_name else self._asking | callers, self._by_callee.of)
        self._asking |= callers
        self._knowing = readers_of(library, state)

    @functools.cached_property
    def pointers(self) -> Edges:
        """Calls, addresses taken and tables of pointers in one graph; numbers from ``len(functions)`` on are data."""
        return pointer_edges(self.library, self._caller, self._callee, self._numbers)

    def _numbers(self, addresses: Ints) -> Ints:
        """The function that starts at each address, or -1."""
        start = self.functions.start
        if not len(start):
            return np.full(len(addresses), -1, np.int64)
        place = np.minimum(np.searchsorted(start, addresses), len(start) - 1)
        return np.where(start[place] == addresses, place, -1)

    def _pointer(self, slot: int) -> int | None:
        place = int(np.searchsorted(self._pointer_at, slot))
        found = place < len(self._pointer_at) and self._pointer_at[place] == slot
        return int(self._pointer_to[place]) if found else None

    def _edges(self, calls: Ints) -> tuple[Ints, Ints]:
        """(caller, callee) numbers; calls to imported functions that ask the CPU go to ``_imports_of``."""
        caller, target = calls[:, 0], calls[:, 1]
        number = self._numbers(target)
        stubs, imports = self.library.references.stubs, self.library.references.imports
        indirect = np.flatnonzero(number < 0)
        places, which = np.unique(target[indirect], return_inverse=True)
        behind = np.full(len(places), -1, np.int64)
        for row, place in enumerate(places.tolist()):
            slot = stubs.get(place, 0)
            if slot in imports:
                if self._check.search(imports[slot]):
                    for one in caller[indirect[which == row]].tolist():
                        self._imports_of[one].append(imports[slot])
            elif (value := self._pointer(slot)) is not None:
                behind[row] = value
        number[indirect] = self._numbers(behind[which]) if len(places) else -1
        real = (number >= 0) & (number != caller)
        return caller[real], number[real]

    def takers(self, slot: int) -> list[int]:
        """Functions that call an imported function, or read its address, through this slot."""
        return self._by_slot.of(slot)

    @functools.cached_property
    def _by_slot(self) -> Edges:
        reads, calls = self.library.scan.reads, self.library.scan.calls
        stubs = sorted(self.library.references.stubs.items())
        through = np.array(stubs, np.int64).reshape(-1, 2)
        place = np.minimum(np.searchsorted(through[:, 0], calls[:, 1]), max(len(through) - 1, 0))
        real = through[place, 0] == calls[:, 1] if len(through) else np.zeros(len(calls), bool)
        slots = np.concatenate([reads[:, 1], through[place[real], 1]])
        return Edges(slots, np.concatenate([reads[:, 0], calls[real, 0]]))

    def taken(self, number: int) -> bool:
        return number in self._taken

    @functools.cached_property
    def asks_at_all(self) -> bool:
        """Does anything in this library ask the CPU what it can do?"""
        imports = self.library.references.imports.values()
        return bool(self._asking or self._state or self._resolvers or any(self._check.search(name) for name in imports))

    @functools.cache  # noqa: B019 (the graph lives as long as one library's audit)
    def callers(self, number: int) -> tuple[int, ...]:
        """Functions that really call or jump to this one."""
        return tuple(caller for caller in self._by_callee.of(number) if self.really_calls(caller, number))

    def likely_callers(self, number: int) -> list[int]:
        """The same, with bytes that only look like a call."""
        return self._by_callee.of(number)

    def really_calls(self, caller: int, number: int) -> bool:
        return self._calls(caller, int(self.functions.start[number]))

    def _calls(self, caller: int, start: int) -> bool:
        if self.library.binary.machine != "x86_64":
            return True
        return any(self._resolve(target) == start for target in self._targets(caller))

    def _resolve(self, target: int) -> int:
        slot = self.library.references.stubs.get(target)
        value = None if slot is None else self._pointer(slot)
        return target if value is None else value

    @functools.cache  # noqa: B019
    def checks(self, number: int) -> bool:
        """Does this function ask the CPU, itself or through a small function it calls?"""
        if self._asks_here(number):
            return True
        # What runs first at loading calls what fills the tables; that makes it no guard of all else it calls.
        if number in self.started or self.functions.name(number).startswith("PyInit_"):
            return False
        for callee in self.by_caller.of(number):
            small = self.functions.end[callee] - self.functions.start[callee] <= SMALL
            if small and (callee in self._knowing or any(far in self._asking for far in self.by_caller.of(callee))):
                return True
        return False

    def _asks_here(self, number: int) -> bool:
        if number in self._asking or number in self._knowing or number in self._resolvers:
            return True
        slots = self._slots_read.of(number)
        if any(slot in self._state for slot in slots):
            return True
        for slot in slots:
            name = self.library.references.imports.get(slot)
            if name and self._check.search(name):
                return True
        first = number in self.started or self.functions.name(number).startswith("PyInit_")
        return any(self._is_question(callee) for callee in self.by_caller.of(number)) and not first

    @functools.cache  # noqa: B019
    def _is_question(self, number: int) -> bool:
        return number in self._asking or bool(self._check.search(short(self.functions.name(number))))

    def _really_asks(self, number: int) -> bool:
        if self.library.binary.machine != "x86_64":
            return True
        code, at = self._decoded(number)
        pair = code[at].astype(np.int64) << 16 | code[at + 1].astype(np.int64) << 8 | code[at + 2]
        return bool((((pair >> 8) == 0x0FA2) | (pair == 0x0F01D0)).any())

    def _decoded(self, number: int) -> tuple[Bytes, Ints]:
        """A function's bytes (with zeros after them) and the offsets of its instructions."""
        start, end = int(self.functions.start[number]), int(self.functions.end[number])
        part = next(p for p in self.library.code if p.address <= start < p.address + p.size)
        raw = np.frombuffer(
            self.library.binary.view.data, np.uint8, count=end - start, offset=part.offset + start - part.address
        )
        length, _ = x86.decode(raw)
        sizes, at, out = length.tobytes(), 0, []
        while at < len(sizes):
            out.append(at)
            at += sizes[at]
        return np.concatenate([raw, np.zeros(32, np.uint8)]), np.array(out, np.int64)

    @functools.cache  # noqa: B019
    def _targets(self, number: int) -> frozenset[int]:
        """Where the real calls and jumps of a function go."""
        code, at = self._decoded(number)
        start = int(self.functions.start[number])
        place = at + np.isin(code[at], (0xF2, 0x3E, 0x2E, 0x66, 0x67))
        head = code[place]
        near = place[(head & 0xFE) == 0xE8] + 1
        conditional = place[(head == 0x0F) & ((code[place + 1] & 0xF0) == 0x80)] + 2
        return frozenset(
            start + operand + 4 + _int32(code, operand) for operand in np.concatenate([near, conditional]).tolist()
        )


def _int32(code: Bytes, at: int) -> int:
    return int.from_bytes(code[at : at + 4].tobytes(), "little", signed=True)
