"""Who calls whom in one library, and through what: the part of the audit that tells guarded from unguarded. A *call* is
direct (also through a call stub). A function whose address is *taken* (by an instruction, a GOT slot, a table) may be
chosen at run time, as dispatch does. Candidates of the scan are confirmed by decoding the caller."""

import bisect
import functools
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from rekindle.formats import x86
from rekindle.formats.code_scan import Bytes, Ints, displacements
from rekindle.formats.elf import SHF_WRITE
from rekindle.formats.pe import WRITE, Pe
from rekindle.inspect.guards import QuestionNames
from rekindle.inspect.isa_scan import LibraryScan
from rekindle.inspect.reach import FIELDS, SMALL, Edges

CPUID = b"\x0f\xa2"
MOST_BETWEEN = 8 << 20


class CodeGraph:
    """Calls, pointers and questions to the CPU of one library."""

    def __init__(self, library: LibraryScan, check_function: QuestionNames) -> None:
        self.library = library
        self.functions = library.functions
        self._check = check_function
        self._is_x86 = library.binary.machine == "x86_64"
        # Without symbols of local functions a pointer tells nothing of who may follow it.
        self.named = bool((self.functions.symbol >= 0).any()) and len(self.functions.files) > 0
        references = library.references
        self._pointer_at, self._pointer_to = references.pointers[:, 0], references.pointers[:, 1]
        self._state = set(library.state.tolist())
        self.import_askers: dict[int, list[str]] = defaultdict(list)
        self.edges = self._find_edges(library.scan.calls)
        addressed = self._find_edges(library.scan.takes)
        caller, callee = (np.concatenate(both) for both in zip(self.edges, addressed, strict=True))
        self._by_callee = Edges(callee, caller)
        self._by_caller = Edges(caller, callee)
        self.started = set(self.numbers(references.started).tolist()) - {-1}
        self.resolvers = set(self.numbers(references.resolvers).tolist()) - {-1}
        self.pointed_to = set(self.numbers(np.unique(self._pointer_to)).tolist()) - {-1}
        self.asking = {number for number in library.scan.asks.tolist() if self._really_asks(number)}

    def numbers(self, addresses: Ints) -> Ints:
        """The function that starts at each address, or -1."""
        start = self.functions.start
        if not len(start):
            return np.full(len(addresses), -1, np.int64)
        place = np.minimum(np.searchsorted(start, addresses), len(start) - 1)
        return np.where(start[place] == addresses, place, -1)

    def _pointer_in(self, slot: int) -> int | None:
        place = int(np.searchsorted(self._pointer_at, slot))
        is_slot = place < len(self._pointer_at) and self._pointer_at[place] == slot
        return int(self._pointer_to[place]) if is_slot else None

    def _find_edges(self, calls: Ints) -> tuple[Ints, Ints]:
        """(caller, callee) numbers; calls to imported functions that ask the CPU go to ``import_askers``."""
        caller, target = calls[:, 0], calls[:, 1]
        number = self.numbers(target)
        stubs, imports = self.library.references.stubs, self.library.references.imports
        indirect = np.flatnonzero(number < 0)
        places, which = np.unique(target[indirect], return_inverse=True)
        behind = np.full(len(places), -1, np.int64)
        for row, slot in enumerate(map(stubs.get, places.tolist())):
            if slot in imports:
                if self._check.search(imports[slot]):
                    for asker in caller[indirect[which == row]].tolist():
                        self.import_askers[asker].append(imports[slot])
            elif slot is not None and (value := self._pointer_in(slot)) is not None:
                behind[row] = value
        number[indirect] = self.numbers(behind[which])
        real = (number >= 0) & (number != caller)
        return caller[real], number[real]

    @functools.cached_property
    def state_readers(self) -> set[int]:
        """Functions that read a variable, or an imported function's slot, known by name to tell of the CPU."""
        reads = self.library.scan.reads
        imports = self.library.references.imports
        state = self._state | {slot for slot, name in imports.items() if self._check.search(name)}
        return set(reads[np.isin(reads[:, 1], np.fromiter(state, np.int64, len(state))), 0].tolist())

    @functools.cache  # noqa: B019 (the graph lives as long as one library's audit)
    def is_question(self, number: int) -> bool:
        """Is this a function that asks the CPU, by what it does or by its name?"""
        return number in self.asking or bool(self._check.search(self.functions.name(number)[:240]))

    def number_at(self, address: int) -> int | None:
        """The function that is called by jumping to this address: one that starts there, or behind a call stub."""
        number = int(self.numbers(np.array([self._resolve(address)], np.int64))[0])
        return number if number >= 0 else None

    @functools.cached_property
    def _stub_of(self) -> dict[int, list[int]]:
        out: dict[int, list[int]] = defaultdict(list)
        for stub, slot in self.library.references.stubs.items():
            if (value := self._pointer_in(slot)) is not None:
                out[value].append(stub)
        return out

    def stubs_to(self, number: int) -> list[int]:
        """Where a call of this function may go: its start, or a call stub that leads there."""
        start = int(self.functions.start[number])
        return [start, *self._stub_of.get(start, ())]

    @functools.cached_property
    def by_slot(self) -> Edges:
        """From a slot to the functions that call an imported function, or read its address, through it."""
        reads, calls, stubs = self.library.scan.reads, self.library.scan.calls, self.library.references.stubs
        through = calls[np.isin(calls[:, 1], np.fromiter(stubs, np.int64, len(stubs)))]
        slots = np.array([stubs[target] for target in through[:, 1].tolist()], np.int64)
        return Edges(np.concatenate([reads[:, 1], slots]), np.concatenate([reads[:, 0], through[:, 0]]))

    @functools.cached_property
    def asks_at_all(self) -> bool:
        """Does anything in this library ask the CPU what it can do?"""
        imports = self.library.references.imports.values()
        named = self.asking or self._state or any(self._check.search(name) for name in imports)
        return bool(named) or any(CPUID in raw and _executes_cpuid(raw) for raw in self._code_between())

    def _code_between(self) -> Iterator[bytes]:
        """Code of no function we know: assembly often has no symbols and no unwind tables (x264)."""
        for part in self.library.code if self._is_x86 else ():
            low, high = np.searchsorted(self.functions.start, [part.address, part.address + part.size])
            ends = np.append(part.address, np.maximum.accumulate(self.functions.end[low:high]))
            starts = np.append(self.functions.start[low:high], part.address + part.size)
            for begin, end in zip(ends[starts > ends].tolist(), starts[starts > ends].tolist(), strict=True):
                offset = part.offset + begin - part.address
                yield bytes(self.library.binary.view.data[offset : offset + min(end - begin, MOST_BETWEEN)])

    @functools.cache  # noqa: B019 (the graph lives as long as one library's audit)
    def callers(self, number: int) -> tuple[int, ...]:
        """Who calls it or takes its address, confirmed by decoding."""
        return tuple(caller for caller in self._by_callee.of(number) if self.calls(caller, number))

    def calls(self, caller: int, number: int) -> bool:
        """Does the caller, once decoded, really lead there? Of x86-64 alone bytes may only look like a call."""
        return not self._is_x86 or int(self.functions.start[number]) in self._facts(caller)[0]

    def _resolve(self, target: int) -> int:
        slot = self.library.references.stubs.get(target)
        value = None if slot is None else self._pointer_in(slot)
        return target if value is None else value

    @functools.cache  # noqa: B019 (the graph lives as long as one library's audit)
    def checks(self, number: int) -> bool:
        """Does this function ask the CPU, itself or through a small function it calls?"""
        if number in self.asking or number in self.state_readers or self.import_askers.get(number):
            return True
        callees = self._by_caller.of(number)
        asks = (callee in self.asking or self._check.search(self.functions.name(callee)) for callee in callees)
        if any(asks) or self._reads_what_askers_wrote(number):
            return True
        size = self.functions.end - self.functions.start
        small = (callee for callee in callees if size[callee] <= SMALL)
        return any(far in self.asking for callee in small for far in self._by_caller.of(callee))

    def _reads_what_askers_wrote(self, number: int) -> bool:
        """For libraries without symbols: there the variables have no names to know them by."""
        asked = [] if self.named or not self._is_x86 or not self.asking else self._asked_variables
        touched = self._facts(number)[1] if asked else ()
        near = ((bisect.bisect_right(asked, address) - 1, address) for address in touched)
        return any(at >= 0 and address < asked[at] + FIELDS and self._may_keep(address) for at, address in near)

    @functools.cached_property
    def _asked_variables(self) -> list[int]:
        """Variables that the asking functions touch: they keep the CPU's answers there."""
        touched = {address for number in self.asking for address in self._facts(number)[1]}
        return sorted(address for address in touched if self._may_keep(address))

    def _may_keep(self, address: int) -> bool:
        """A variable: no constant, no slot of an imported function, not what guards everybody's stack."""
        taken = address in self.library.references.imports or address == getattr(self.library.binary, "cookie", None)
        return not taken and any(low <= address < high for low, high in self._variables)

    @functools.cached_property
    def _variables(self) -> list[tuple[int, int]]:
        binary = self.library.binary
        if isinstance(binary, Pe):
            return [(s.address, s.address + s.virtual_size) for s in binary.sections if s.flags & WRITE]
        return [(s.address, s.address + s.size) for s in binary.sections if s.flags & SHF_WRITE]

    def _really_asks(self, number: int) -> bool:
        if not self._is_x86:
            return True
        code, at = self.decoded(number)
        pair = code[at].astype(np.int64) << 16 | code[at + 1].astype(np.int64) << 8 | code[at + 2]
        return bool((((pair >> 8) == 0x0FA2) | (pair == 0x0F01D0)).any())

    def decoded(self, number: int) -> tuple[Bytes, Ints]:
        """A function's bytes (with zeros after them) and the offsets of its instructions."""
        return self.decode_many([number])[0]

    def decode_many(self, numbers: list[int]) -> list[tuple[Bytes, Ints]]:
        """The same for several functions at once, which costs less than one after the other."""
        raws = [self.raw(number) for number in numbers]
        # Zeros between functions keep the last instruction of each from reading the next function.
        gap = np.zeros(32, np.uint8)
        length, _ = x86.decode(np.concatenate([piece for raw in raws for piece in (raw, gap)]))
        out, begin = [], 0
        for raw in raws:
            places = list(x86.follow(length[begin : begin + len(raw)]))
            out.append((np.concatenate([raw, gap]), np.array(places, np.int64)))
            begin += len(raw) + 32
        return out

    def raw(self, number: int) -> Bytes:
        """A function's bytes."""
        start, end = int(self.functions.start[number]), int(self.functions.end[number])
        part = next(p for p in self.library.code if p.address <= start < p.address + p.size)
        offset = part.offset + start - part.address
        return np.frombuffer(self.library.binary.view.data, np.uint8, count=end - start, offset=offset)

    @functools.lru_cache(maxsize=20_000)  # noqa: B019
    def _facts(self, number: int) -> tuple[frozenset[int], frozenset[int]]:
        """(where real calls and jumps lead, call stubs or not; addresses of real memory operands) of a function."""
        code, at = self.decoded(number)
        start = int(self.functions.start[number])
        following = np.append(at[1:], int(self.functions.end[number]) - start)
        place = at + np.isin(code[at], (0xF2, 0x3E, 0x2E, 0x66))
        head = code[place]
        near = place[(head & 0xFE) == 0xE8] + 1
        conditional = place[(head == 0x0F) & ((code[place + 1] & 0xF0) == 0x80)] + 2
        operands = np.concatenate([near, conditional])
        direct = set((start + operands + 4 + displacements(code, operands)).tolist())
        memory: set[int] = set()
        # ModRM with mod 0, rm 5 is relative to the next instruction; it stands one to five bytes after the first.
        for shift in range(1, 6):
            modrm = at + shift
            fits = (modrm + 5 <= following) & (following - modrm <= 9) & ((code[modrm] & 0xC7) == 0x05)
            memory.update((start + following[fits] + displacements(code, modrm[fits] + 1)).tolist())
        through = {value for slot in memory if (value := self._pointer_in(slot)) is not None}
        return frozenset(map(self._resolve, direct | through)), frozenset(memory)


def _executes_cpuid(raw: bytes) -> bool:
    """Is one of these bytes really the instruction? Decoded from the start on, as assembly stands without gaps."""
    length, _ = x86.decode(np.frombuffer(raw, np.uint8))
    return any(raw.startswith(CPUID, at) for at in x86.follow(length))
