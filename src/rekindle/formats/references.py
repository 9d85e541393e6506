"""Who refers to whom in a library besides direct calls: call stubs, slots the loader fills, pointers in data. ELF: all
from the relocations. PE: the import table and the jumps through it, no pointers. Addresses are mapped ones."""

from dataclasses import dataclass, field

import numpy as np

from rekindle.formats.code_scan import Bytes, Ints, adrp_pages, displacements
from rekindle.formats.elf import Elf, Section, packed_slots
from rekindle.formats.functions import code_of, string_table, symbols_of, table_string
from rekindle.formats.pe import Pe

RELA = np.dtype([("where", "<u8"), ("info", "<u8"), ("addend", "<i8")])
# machine -> (relative, absolute 64, GLOB_DAT, JUMP_SLOT, IRELATIVE)
_KINDS = {"x86_64": (8, 1, 6, 7, 37), "aarch64": (1027, 257, 1025, 1026, 1032)}
MAX_STUBS = 2_000_000
STRETCH = 16 << 20


@dataclass
class References:
    """``pointers`` rows: (slot, address it points to). ``imports``: slot -> name of a symbol from elsewhere. ``stubs``:
    address of a call stub -> its slot. ``started`` are functions the loader calls (init_array). ``libraries``: slot ->
    the library an import comes from, where the file says it (PE does, ELF does not)."""

    pointers: Ints
    imports: dict[int, str]
    stubs: dict[int, int]
    started: Ints
    resolvers: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    libraries: dict[int, str] = field(default_factory=dict)


def read_references(elf: Elf) -> References:
    """What an ELF library's relocations fill in."""
    kinds = _KINDS.get(elf.machine)
    none = np.zeros((0, 2), np.int64)
    if kinds is None:
        return References(none, {}, {}, none.ravel())
    dynamic = elf.section(".dynsym")
    symbols, names = symbols_of(elf, dynamic), string_table(elf, dynamic)
    pointers, imports, resolvers = [none], {}, [none.ravel()]
    for section in elf.sections:
        if section.kind == 4 and section.name.startswith((".rela.dyn", ".rela.plt", ".rela.iplt")):
            offset, size = elf.content(section)
            rows = np.frombuffer(elf.view.data, RELA, count=size // RELA.itemsize, offset=offset)
            kind, symbol = (rows["info"] & 0xFFFFFFFF).astype(np.int64), (rows["info"] >> 32).astype(np.int64)
            where, addend = rows["where"].astype(np.int64), rows["addend"].astype(np.int64)
            relative = kind == kinds[0]
            pointers.append(np.stack([where[relative], addend[relative]], axis=1))
            resolvers.append(addend[kind == kinds[4]])
            bound = np.isin(kind, kinds[1:4]) & (symbol < len(symbols))
            where, symbol, addend = where[bound], symbol[bound], addend[bound]
            defined = symbols["section"][symbol] != 0
            value = symbols["value"][symbol].astype(np.int64) + addend
            pointers.append(np.stack([where[defined], value[defined]], axis=1))
            for slot, index in zip(where[~defined].tolist(), symbol[~defined].tolist(), strict=True):
                imports[slot] = table_string(names, int(symbols["name"][index]), most=1024)
    pointers.append(_packed_relative(elf))
    joined = np.concatenate(pointers)
    joined = joined[np.argsort(joined[:, 0], kind="stable")]
    listed = elf.section(".init_array")
    low, size = (listed.address, listed.size) if listed else (0, 0)
    started = np.unique(joined[(joined[:, 0] >= low) & (joined[:, 0] < low + size), 1])
    read = _x86_stubs if elf.machine == "x86_64" else _arm_stubs
    tables = [part for part in elf.sections if part.name.startswith(".plt") and part.size // 8 < MAX_STUBS]
    stubs = {stub: slot for table in tables for stub, slot in read(elf, table).items()}
    return References(joined, imports, stubs, started, np.concatenate(resolvers))


def read_pe_references(pe: Pe) -> References:
    """What a PE image takes from other libraries. Who is called through a table of its own is not told."""
    imports = {slot: name for slot, (_, name) in pe.imports.items()}
    libraries = {slot: library for slot, (library, _) in pe.imports.items()}
    none, slots = np.zeros((0, 2), np.int64), np.fromiter(imports, np.int64, len(imports))
    stubs: dict[int, int] = {}
    code_parts = code_of(pe) if pe.machine == "x86_64" and imports else []
    for part, begin in ((each, at) for each in code_parts for at in range(0, each.size, STRETCH)):
        size = min(STRETCH + 8, part.size - begin)
        code = np.frombuffer(pe.view.data, np.uint8, count=size, offset=part.offset + begin)
        # What the linker writes for a function that was not declared as imported.
        at, target = _find_jumps(code, part.address + begin)
        real = np.isin(target, slots)
        stubs |= dict(zip((part.address + begin + at[real]).tolist(), target[real].tolist(), strict=True))
    return References(none, imports, stubs, none.ravel(), libraries=libraries)


def _packed_relative(elf: Elf) -> Ints:
    """The pointers of a RELR table, which lie in the slots it names."""
    section = elf.section(".relr.dyn")
    offset, size = elf.content(section) if section else (0, 0)
    places = ((slot, elf.offset_of(slot)) for slot in packed_slots(elf.view.take(offset, size // 8 * 8)))
    inside = [(slot, place) for slot, place in places if place is not None and elf.view.inside(place, 8)]
    out = [(slot, elf.view.number("<q", place)) for slot, place in inside]
    return np.array(out, np.int64).reshape(len(out), 2)


def _x86_stubs(elf: Elf, section: Section) -> dict[int, int]:
    """Every stub is 8 or 16 bytes long and jumps through its slot: ``ff 25 rel32``, perhaps after endbr64 or bnd."""
    offset, size = elf.content(section)
    code = np.frombuffer(elf.view.data, np.uint8, count=size, offset=offset)
    raw = code.tobytes()
    out = {}
    for begin, slot in zip(*(column.tolist() for column in _find_jumps(code, section.address)), strict=True):
        for before in (b"\xf2", b"\xf3\x0f\x1e\xfa"):
            begin -= len(before) if raw.endswith(before, 0, begin) else 0
        out[section.address + begin] = slot
    return out


def _find_jumps(code: Bytes, address: int) -> tuple[Ints, Ints]:
    """The offset of each ``jmp [rip + slot]`` in code that is mapped at ``address``, and its slot."""
    at = np.flatnonzero(code[: max(len(code) - 5, 0)] == 0xFF)
    at = at[code[at + 1] == 0x25]
    return at, address + at + 6 + displacements(code, at + 2)


def _arm_stubs(elf: Elf, section: Section) -> dict[int, int]:
    """``adrp x16, page; ldr x17, [x16, #low]; add; br x17``."""
    offset, size = elf.content(section)
    words = np.frombuffer(elf.view.data, "<u4", count=size // 4, offset=offset).astype(np.int64)
    out = {}
    for index in np.flatnonzero((words[:-1] & 0x9F00001F) == 0x90000010).tolist():
        load, at = int(words[index + 1]), section.address + index * 4
        if load & 0xFFC003FF == 0xF9400211:
            # A BTI landing pad may stand before it.
            begin = at - 4 if index and int(words[index - 1]) == 0xD503245F else at
            out[begin] = (at & ~0xFFF) + (int(adrp_pages(words[index])) << 12) + (load >> 10 & 0xFFF) * 8
    return out
