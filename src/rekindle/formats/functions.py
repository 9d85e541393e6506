"""Where the functions of a library begin and end, and what they are called, as arrays. ELF: ``.symtab`` or ``.dynsym``,
joined with the unwind table. PE: ``.pdata`` with the exports' names. A symbol's *file* is the STT_FILE entry before it,
the unit of local functions; hidden functions that the linker made local have none, behind an empty entry."""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from rekindle.formats.code_scan import Flags, Ints
from rekindle.formats.elf import PF_EXECUTE, PT_LOAD, SHF_EXECINSTR, SHT_NOBITS, Elf, Section
from rekindle.formats.pe import EXCEPTION, EXECUTE, Pe
from rekindle.formats.view import Malformed

SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
LOCAL, GLOBAL, WEAK = 0, 1, 2
_OBJECT, _FUNC, _FILE, _IFUNC = 1, 2, 4, 10
MAX_SYMBOLS = 50_000_000


@dataclass
class Code:
    """One executable stretch: mapped at ``address``, stored at ``offset``."""

    address: int
    offset: int
    size: int


@dataclass
class Functions:
    """Sorted by ``start``; ``end`` never reaches into the next. ``symbol`` is an index into the table, or -1."""

    start: Ints
    end: Ints
    symbol: Ints
    table: Any
    strings: tuple[Any, int, int]
    files: Ints
    exported: Flags
    names: dict[int, str]

    def __len__(self) -> int:
        return len(self.start)

    def name(self, index: int) -> str:
        """The symbol's name, or its address where it has none."""
        if index in self.names:
            return self.names[index]
        symbol = int(self.symbol[index])
        text = table_string(self.strings, int(self.table["name"][symbol])) if symbol >= 0 else ""
        return text or f"function at {int(self.start[index]):#x}"

    def named(self, index: int) -> bool:
        """Has it a name, or only an address?"""
        return index in self.names or int(self.symbol[index]) >= 0

    def file(self, index: int) -> str:
        """The translation unit of a local function, or an empty string."""
        symbol = int(self.symbol[index])
        if symbol < 0 or not len(self.files) or self.binding(index) != LOCAL:
            return ""
        at = int(self.files[symbol])
        return table_string(self.strings, int(self.table["name"][at])) if at else ""

    def all_files(self) -> list[str]:
        """The translation units that are named at all."""
        symbols = np.unique(self.files)
        return [table_string(self.strings, int(self.table["name"][at])) for at in symbols.tolist() if at]

    def binding(self, index: int) -> int:
        symbol = int(self.symbol[index])
        return LOCAL if symbol < 0 else int(self.table["info"][symbol]) >> 4

    def at(self, address: int) -> int | None:
        index = int(np.searchsorted(self.start, address, "right")) - 1
        return index if index >= 0 and address < self.end[index] else None


def code_of(binary: Elf | Pe) -> list[Code]:
    """Executable sections without the linker's call stubs; segments where the section table is gone."""
    if isinstance(binary, Pe):
        return [Code(part.address, *binary.content(part)) for part in binary.sections if part.flags & EXECUTE]
    if not binary.sections:
        executable = [part for part in binary.segments if part.kind == PT_LOAD and part.flags & PF_EXECUTE]
        inside = [part for part in executable if binary.view.inside(part.offset, part.file_size)]
        return [Code(part.address, part.offset, part.file_size) for part in inside]
    out = []
    for section in binary.sections:
        stub = section.name.startswith(".plt") or section.name in (".init", ".fini")
        if section.flags & SHF_EXECINSTR and section.kind != SHT_NOBITS and not stub and section.size:
            out.append(Code(section.address, *binary.content(section)))
    return out


def find_functions(binary: Elf | Pe) -> Functions:
    return _pe_functions(binary) if isinstance(binary, Pe) else _elf_functions(binary)


def symbols_of(elf: Elf, section: Section | None) -> Any:
    """The rows of a table of symbols; none where there is no table."""
    if section is None or not section.size:
        return np.zeros(0, SYMBOL)
    offset, size = elf.content(section)
    if size // SYMBOL.itemsize > MAX_SYMBOLS:
        raise Malformed(f"{elf.view.what} claims {size // SYMBOL.itemsize} symbols")
    return np.frombuffer(elf.view.data, SYMBOL, count=size // SYMBOL.itemsize, offset=offset)


def string_table(elf: Elf, section: Section | None) -> tuple[Any, int, int]:
    """Where the names of a table of symbols stand: the bytes, from here to there."""
    if section is None or not section.size:
        return b"", 0, 0
    if section.link >= len(elf.sections):
        raise Malformed(f"{elf.view.what}: the strings of {section.name} are nowhere")
    offset, size = elf.content(elf.sections[section.link])
    return elf.view.data, offset, offset + size


def table_string(table: tuple[Any, int, int], offset: int, most: int = 4096) -> str:
    """A name of a string table, no more than ``most`` bytes of it; empty where the offset leads out of the table."""
    data, start, end = table
    low = start + offset
    # Most names are short: a page for each of a hundred thousand is copied for nothing.
    piece = bytes(data[low : min(end, low + 256)])
    if b"\0" not in piece:
        piece = bytes(data[low : min(end, low + most)])
    return piece.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


def _elf_functions(elf: Elf) -> Functions:
    code = code_of(elf)
    full = elf.section(".symtab")
    section = full or elf.section(".dynsym")
    table, strings = symbols_of(elf, section), string_table(elf, section)
    kind = table["info"] & 15
    callable_ = ((kind == _FUNC) | (kind == _IFUNC)) & (table["section"] != 0)
    value = table["value"].astype(np.int64)
    chosen = np.flatnonzero(callable_ & _lies_in_code(value, code))
    # Of several names for one address a global one is kept: it is what others call.
    chosen = chosen[np.lexsort((-(table["info"][chosen] >> 4).astype(np.int64), value[chosen]))]
    start, first = np.unique(value[chosen], return_index=True)
    chosen = chosen[first]
    size = np.minimum(table["size"][chosen], 1 << 40).astype(np.int64)
    # Locals after a FILE entry belong to it; the accumulated maximum carries the last one forward.
    files = (
        np.maximum.accumulate(np.where(kind == _FILE, np.arange(len(table)), 0)) if full and len(table) else start[:0]
    )
    others = symbols_of(elf, elf.section(".dynsym"))
    visible = (others["section"] != 0) & ((others["info"] >> 4) != LOCAL)
    exported = np.isin(start, others["value"][visible].astype(np.int64))
    unwind_start, unwind_end = _read_unwind(elf)
    if len(unwind_start):
        # Symbols that hand-written start code leaves without a size: the unwind table knows where they end.
        row = np.minimum(np.searchsorted(unwind_start, start), len(unwind_start) - 1)
        size = np.where((size == 0) & (unwind_start[row] == start), unwind_end[row] - start, size)
    keep = _lies_in_code(unwind_start, code) & ~_lies_in_symbol(unwind_start, start, size)
    all_start = np.concatenate([start, unwind_start[keep]])
    all_end = np.concatenate([start + size, unwind_end[keep]])
    symbol = np.concatenate([chosen.astype(np.int64), np.full(int(keep.sum()), -1, np.int64)])
    shown = np.concatenate([exported, np.zeros(int(keep.sum()), bool)])
    order = np.argsort(all_start, kind="stable")
    end = _bound_ends(all_start[order], all_end[order], code)
    return Functions(all_start[order], end, symbol[order], table, strings, files, shown[order], {})


def _lies_in_code(value: Ints, code: list[Code]) -> Flags:
    out = np.zeros(len(value), bool)
    for part in code:
        out |= (value >= part.address) & (value < part.address + part.size)
    return out


def _lies_in_symbol(points: Ints, start: Ints, size: Ints) -> Flags:
    """Points that lie inside a sized symbol, or at the start of one without a size."""
    if not len(start):
        return np.zeros(len(points), bool)
    index = np.searchsorted(start, points, "right") - 1
    before = np.maximum(index, 0)
    return np.asarray((index >= 0) & ((points < start[before] + size[before]) | (points == start[before])))


def _bound_ends(start: Ints, end: Ints, code: list[Code]) -> Ints:
    """Never past the next function; a symbol without a size runs up to it; never out of its section."""
    following = np.full(len(start), np.iinfo(np.int64).max, np.int64)
    following[:-1] = start[1:]
    out = np.minimum(np.where(end > start, end, following), following)
    for part in code:
        mine = (start >= part.address) & (start < part.address + part.size)
        out[mine] = np.minimum(out[mine], part.address + part.size)
    return np.asarray(out, np.int64)


def _read_unwind(elf: Elf) -> tuple[Ints, Ints]:
    """Function ranges from ``.eh_frame_hdr``; none where it has another form than linkers write today."""
    empty = np.zeros(0, np.int64)
    section, frames = elf.section(".eh_frame_hdr"), elf.section(".eh_frame")
    if section is None or frames is None or section.size < 12:
        return empty, empty
    offset, size = elf.content(section)
    version, _, count_form, table_form, _, count = struct.unpack_from("<BBBBiI", elf.view.data, offset)
    # 0x03: udata4; 0x3b: signed 4 bytes relative to the section.
    if version != 1 or count_form != 0x03 or table_form != 0x3B or 12 + 8 * count > size:
        return empty, empty
    rows = np.frombuffer(elf.view.data, "<i4", count=2 * count, offset=offset + 12).reshape(-1, 2).astype(np.int64)
    start, frame = rows[:, 0] + section.address, rows[:, 1] + section.address - frames.address + frames.offset
    good = (frame >= 0) & (frame + 16 <= elf.view.size)
    start, frame = start[good], frame[good]
    raw = np.frombuffer(elf.view.data, np.uint8)
    # An FDE is u32 length, u32 CIE, s32 start, u32 range (4-byte encodings, as GCC and Clang write).
    length = sum(raw[frame + 12 + i].astype(np.int64) << (8 * i) for i in range(4))
    order = np.argsort(start, kind="stable")
    start, length = start[order], np.asarray(length)[order]
    following = np.append(start[1:], start[-1:] + (1 << 20))
    return start, np.where(length > 0, np.minimum(start + length, following), following)


def _pe_functions(pe: Pe) -> Functions:
    offset, size = pe.directory(EXCEPTION) or (0, 0)
    step = 12 if pe.machine == "x86_64" else 8
    if not pe.view.inside(offset, size):
        raise Malformed(f"{pe.view.what}: its function table lies outside the file")
    count = size // step
    table = np.frombuffer(pe.view.data, "<u4", count=count * step // 4, offset=offset)
    rows = table.reshape(count, step // 4).astype(np.int64)
    code = code_of(pe)
    rows = rows[_lies_in_code(rows[:, 0], code)]
    start, first = np.unique(rows[:, 0], return_index=True)
    end = rows[first, 1] if step == 12 else np.zeros(len(start), np.int64)
    named = dict(pe.exports)
    exported = np.fromiter(named, np.int64, len(named))
    # Exported functions that the function table leaves out: those that call nobody and keep nothing on the stack.
    # FBGEMM's FindMinMax, which crashes old CPUs, is one. They end where the next function starts.
    leaves = np.unique(exported[_lies_in_code(exported, code)])
    leaves = leaves[~_lies_in_symbol(leaves, start, np.maximum(end - start, 1))]
    order = np.argsort(both := np.concatenate([start, leaves]), kind="stable")
    start, end = both[order], np.concatenate([end, np.zeros(len(leaves), np.int64)])[order]
    shown = np.isin(start, exported)
    names = {int(i): named[int(start[i])] for i in np.flatnonzero(shown)}
    symbol, table = np.full(len(start), -1, np.int64), np.zeros(0, SYMBOL)
    return Functions(start, _bound_ends(start, end, code), symbol, table, (b"", 0, 0), symbol[:0], shown, names)
