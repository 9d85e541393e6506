"""One read-only section of a shared library, with new content, at a new place: the end of the file and of its memory.

For content that only pointers lead to (``.nv_fatbin``, ``.hip_fatbin``), which therefore may move and grow. The library
gets one more read-only PT_LOAD, which holds a copy of the program headers with room for it and the new content; every
relocated pointer to a moved piece is set to its new place (RELATIVE: the addend and the slot; RELR: the slot); the
section's row in the section table follows it. Whole pages of the old content leave the file: their segment is split in
two around them, so that a library only grows by what is new. A pointer that leads elsewhere into the section, or a file
whose tables contradict each other, is refused before anything is written. x86-64 and aarch64.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

import numpy as np

from rekindle.formats.elf import PT_LOAD, Elf, Section, packed_slots
from rekindle.formats.references import RELA
from rekindle.formats.view import Malformed, copy_stretch, round_up

_RELATIVE = {"x86_64": 8, "aarch64": 1027}
_RELA, _RELR = 4, 19
_PT_PHDR, _READ = 6, 4
_SEGMENT, _SECTION = struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
_LEAST_PAGE = 0x1000
ALIGN = 16
MAX_SEGMENTS = 1000


@dataclass(frozen=True)
class SectionPiece:
    """What pointers lead to: where it is mapped; its new content, bytes or stretches (offset, size) of the file."""

    address: int
    parts: tuple[bytes | tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Of all parts together."""
        return sum(len(part) if isinstance(part, bytes) else part[1] for part in self.parts)


@dataclass(frozen=True)
class Pointer:
    """Where a relocated pointer's slot and addend lie in the file (None: in the slot), and where it leads."""

    slot: int
    addend: int | None
    target: int


def pointers_into(elf: Elf, section: Section) -> tuple[Pointer, ...]:
    """Every pointer to ``section`` that the loader fills in."""
    if (kind := _RELATIVE.get(elf.machine)) is None:
        raise Malformed(f"{elf.view.what} is for {elf.machine}; pointers are read for x86_64 and aarch64")
    low, high = section.address, section.address + section.size
    pointers: list[Pointer] = []
    for table in elf.sections:
        offset, size = elf.content(table)
        if table.kind == _RELA:
            for row, where, addend in _plain_pointers(elf, offset, size, kind, low, high):
                pointers.append(Pointer(_file_offset(elf, where), offset + row * RELA.itemsize + 16, addend))
        elif table.kind == _RELR:
            places = [_file_offset(elf, slot) for slot in packed_slots(elf.view.take(offset, size // 8 * 8))]
            found = [Pointer(place, None, elf.view.number("<Q", place)) for place in places]
            pointers += [pointer for pointer in found if low <= pointer.target < high]
    return tuple(pointers)


def move_section(
    elf: Elf, section: Section, pieces: Sequence[SectionPiece], out: IO[bytes], align: int = ALIGN
) -> None:
    """Write the library with ``pieces`` as all of ``section``, each at a multiple of ``align``, to an empty file."""
    _Plan(elf, section, pieces, align).write(out)


class _Plan:
    """All that is decided before the first byte is written."""

    def __init__(self, elf: Elf, section: Section, pieces: Sequence[SectionPiece], align: int) -> None:
        self.elf, self.section, self.pieces, self.align = elf, section, pieces, align
        view = elf.view
        self.head = list(view.unpack("<QQ", 32))
        entry, count, row, rows = view.unpack("<HHHH", 54)
        if (entry, row) != (_SEGMENT.size, _SECTION.size) or not rows or rows != len(elf.sections) or not elf.segments:
            raise Malformed(f"{view.what} has tables of another form than libraries have")
        self.segments = [list(view.unpack(_SEGMENT.format, self.head[0] + i * entry)) for i in range(count)]
        self.rows = [list(view.unpack(_SECTION.format, self.head[1] + i * row)) for i in range(rows)]
        self.loads = [segment for segment in self.segments if segment[0] == PT_LOAD]
        if not self.loads or count > MAX_SEGMENTS:
            raise Malformed(f"{view.what} has no segment to load")
        self.page = max([_LEAST_PAGE, *(load[7] for load in self.loads)])
        if self.page & (self.page - 1) or self.page > 1 << 24:
            raise Malformed(f"{view.what} wants its segments aligned to {self.page}, which no system does")
        self.pointers = pointers_into(elf, section)
        self.cut = self._find_cut()
        # The old section table goes if it is the end of the file, where linkers put it.
        ends = (row[4] + (0 if row[1] == 8 else row[5]) for row in self.rows if row[1])
        is_last = self.head[1] + _SECTION.size * rows == view.size and max(ends, default=0) <= self.head[1]
        self.kept_end = self.head[1] if is_last else view.size
        self.start = round_up(self._new_offset(self.kept_end), self.page)
        self.address = round_up(max(load[3] + load[6] for load in self.loads), self.page)
        if self.address + (1 << 40) >= 1 << 47:
            raise Malformed(f"{view.what} leaves no addresses for one segment more")
        self._place_pieces()

    def _find_cut(self) -> tuple[int, int]:
        """File offsets (from, to) of whole pages of old content that nobody else lies in; equal where none are."""
        start = self.section.offset
        low, high = round_up(start, self.page), (start + self.section.size) // self.page * self.page
        home = [load for load in self.loads if load[2] <= start and start + self.section.size <= load[2] + load[5]]
        if low >= high or len(home) != 1 or (home[0][2] - home[0][3]) % self.page:
            return start, start
        others = [(s[2], s[5]) for s in self.segments if s is not home[0]]
        others += [(row[4], row[5]) for row in self.rows if row[1] not in (0, 8) and row[4] != start]
        others += [(self.head[0], _SEGMENT.size * len(self.segments)), (self.head[1], _SECTION.size * len(self.rows))]
        in_use = any(size and at < high and at + size > low for at, size in others)
        return (start, start) if in_use else (low, high)

    def _new_offset(self, offset: int) -> int:
        """The new file offset of what stays."""
        return offset - (self.cut[1] - self.cut[0]) if offset >= self.cut[1] else offset

    def _split_segments(self) -> list[list[int]]:
        """The old segments at their new offsets, the one with the cut in two."""
        low, high = self.cut
        out: list[list[int]] = []
        for kind, flags, offset, address, physical, file_size, size, align in self.segments:
            if kind == PT_LOAD and low < high and offset <= low and high <= offset + file_size:
                first, rest = low - offset, high - offset
                if first:
                    out.append([kind, flags, offset, address, physical, first, first, align])
                if size != rest:
                    places = (self._new_offset(high), address + rest, physical + rest)
                    out.append([kind, flags, *places, file_size - rest, size - rest, align])
            else:
                out.append([kind, flags, self._new_offset(offset), address, physical, file_size, size, align])
        return out

    def _place_pieces(self) -> None:
        """Where everything new lies; ``moved`` maps the old address of a piece to its new one."""
        segments = self._split_segments()
        table = round_up(_SEGMENT.size * (len(segments) + 1), self.align)
        self.moved: dict[int, int] = {}
        at = table
        for piece in self.pieces:
            at = round_up(at, self.align)
            self.moved[piece.address] = self.address + at
            at += piece.size
        self.size, self.content_at = at, table
        if strange := [f"{pointer.target:#x}" for pointer in self.pointers if pointer.target not in self.moved]:
            where = f"the middle of {self.section.name} ({strange[0]})"
            raise Malformed(f"{self.elf.view.what}: a pointer leads into {where}, so it cannot be moved")
        new = [PT_LOAD, _READ, self.start, self.address, self.address, at, at, self.page]
        last = max(i for i, segment in enumerate(segments) if segment[0] == PT_LOAD)
        segments.insert(last + 1, new)
        for segment in segments:
            if segment[0] == _PT_PHDR:
                segment[2:7] = [self.start, self.address, self.address, *[_SEGMENT.size * len(segments)] * 2]
        self.new_segments = segments
        self.table_at = round_up(self.start + self.size, 8)

    def write(self, out: IO[bytes]) -> None:
        """Old bytes without the cut, the new segment, the section table; then the headers and pointers."""
        low, high = self.cut
        data, begin, end = self.elf.view.data, self.section.offset, self.section.offset + self.section.size
        for first, last in ((0, begin), (begin, low), (high, end), (end, self.kept_end)):
            if begin <= first and last <= end:
                # What is left of the old content at its ends would look like content to those who search.
                out.write(bytes(last - first))
            else:
                copy_stretch(data, out, first, last)
        out.write(bytes(self.start - out.tell()))
        out.write(b"".join(_SEGMENT.pack(*segment) for segment in self.new_segments))
        for piece in self.pieces:
            out.write(bytes(self.start + self.moved[piece.address] - self.address - out.tell()))
            for part in piece.parts:
                if isinstance(part, bytes):
                    out.write(part)
                else:
                    copy_stretch(data, out, part[0], part[0] + part[1])
        out.write(bytes(self.table_at - out.tell()))
        out.write(b"".join(_SECTION.pack(*self._new_row(row)) for row in self.rows))
        edits = {32: struct.pack("<QQ", self.start, self.table_at), 56: struct.pack("<H", len(self.new_segments))}
        for pointer in self.pointers:
            for place in (pointer.slot, pointer.addend):
                if place is not None:
                    edits[self._new_offset(place)] = struct.pack("<Q", self.moved[pointer.target])
        for offset, content in edits.items():
            out.seek(offset)
            out.write(content)
        out.seek(0, 2)

    def _new_row(self, row: list[int]) -> list[int]:
        if row[1] and row[4] == self.section.offset and row[3] == self.section.address:
            place = (self.address + self.content_at, self.start + self.content_at, self.size - self.content_at)
            return [*row[:3], *place, row[6], row[7], self.align, row[9]]
        return [*row[:4], self._new_offset(row[4]), *row[5:]]


def _plain_pointers(elf: Elf, offset: int, size: int, kind: int, low: int, high: int) -> list[tuple[int, int, int]]:
    """(row, slot, target) of RELATIVE relocations. No view may outlive this call: the file could not be closed."""
    rows = np.frombuffer(elf.view.data, RELA, count=size // RELA.itemsize, offset=offset)
    inside = np.flatnonzero((rows["info"] == kind) & (rows["addend"] >= low) & (rows["addend"] < high))
    chosen = rows[inside]
    return list(zip(inside.tolist(), chosen["where"].tolist(), chosen["addend"].tolist(), strict=True))


def _file_offset(elf: Elf, address: int) -> int:
    place = elf.offset_of(address)
    if place is None or not elf.view.inside(place, 8):
        raise Malformed(f"{elf.view.what}: a relocation fills in {address:#x}, which is in no segment of the file")
    return place
