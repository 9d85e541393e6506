"""ELF shared libraries, 64-bit little-endian (x86-64, aarch64): sections, links, version needs; headers at once, the
rest when asked. What the dynamic loader needs is read through the program headers, as the loader does, so that stripped
or section-less files work too."""

from __future__ import annotations

import contextlib
import functools
import itertools
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rekindle.formats.view import Malformed, View, map_file

MACHINES = {62: "x86_64", 183: "aarch64", 3: "x86", 40: "arm", 21: "ppc64le", 243: "riscv64"}
MACHINES |= {190: "cuda", 224: "amdgpu"}
SHT_NULL, SHT_NOBITS = 0, 8
SHF_WRITE, SHF_EXECINSTR = 1, 4
PT_LOAD, PT_DYNAMIC = 1, 2
PF_EXECUTE = 1
MAX_SECTIONS = 100_000
MAX_ADDRESS = 1 << 57
MAX_ENTRIES = 1 << 20
DT = {"NEEDED": 1, "PLTRELSZ": 2, "HASH": 4, "STRTAB": 5, "SYMTAB": 6, "STRSZ": 10, "SYMENT": 11, "SONAME": 14}
DT |= {"RPATH": 15, "JMPREL": 23, "RUNPATH": 29, "VERSYM": 0x6FFFFFF0, "VERDEF": 0x6FFFFFFC, "VERDEFNUM": 0x6FFFFFFD}
DT |= {"VERNEED": 0x6FFFFFFE, "VERNEEDNUM": 0x6FFFFFFF}


@dataclass(frozen=True)
class Section:
    """``address`` is where it is mapped, ``offset`` where its ``size`` bytes lie in the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Segment:
    """A stretch that the loader maps."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int


@dataclass(frozen=True)
class Need:
    """What is wanted of one library: ``GLIBC_2.28``; ``numbers`` as in the table of symbols' versions."""

    library: str
    versions: tuple[str, ...]
    numbers: tuple[int, ...] = field(default=(), compare=False)


def packed_slots(table: bytes) -> list[int]:
    """The slots of pointers that a RELR table names: an address, then bitmaps of the 63 words after it."""
    slots: list[int] = []
    at, count = 0, 63
    for (word,) in struct.iter_unpack("<Q", table):
        if word & 1 == 0:
            slots.append(word)
            at = word + 8
        else:
            slots += [at + 8 * bit for bit in range(count) if word >> (bit + 1) & 1]
            at += count * 8
    return slots


def is_elf(head: bytes | mmap.mmap) -> bool:
    """Told by its first four bytes."""
    return head[:4] == b"\x7fELF"


class Elf:
    """One file; what is not read by the constructor is read when it is asked for."""

    format = "elf"
    image_base = 0
    delayed: tuple[str, ...] = ()

    def __init__(self, data: Any, what: str = "file") -> None:
        self.view = view = View(data, what)
        ident = view.take(0, 16)
        if not is_elf(ident):
            raise Malformed(f"{what} is no ELF file")
        if ident[4] != 2 or ident[5] != 1:
            raise Malformed(f"{what} is an ELF file of another kind (only 64-bit little-endian ones are read)")
        (self.type, machine) = view.unpack("<HH", 16)
        self.machine = MACHINES.get(machine, f"machine {machine}")
        self._phoff, self._shoff = view.unpack("<QQ", 32)
        self._phentsize, self._phnum, self._shentsize, self._shnum, self._shstrndx = view.unpack("<HHHHH", 54)

    @functools.cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections; empty where the table was stripped."""
        view, base, size = self.view, self._shoff, self._shentsize
        count, names_at = self._shnum, self._shstrndx
        if base == 0:
            return ()
        if size < 64:
            raise Malformed(f"{view.what} has section headers of {size} bytes")
        if count == 0:
            count = view.number("<Q", base + 0x20)
        if names_at == 0xFFFF:
            names_at = view.number("<I", base + 0x28)
        if count > MAX_SECTIONS or not view.inside(base, count * size):
            raise Malformed(f"{view.what} claims {count} sections at offset {base}, more than it can hold")
        if not (rows := [view.unpack("<IIQQQQIIQQ", base + i * size) for i in range(count)]):
            return ()
        if any(row[3] >= MAX_ADDRESS or row[5] >= MAX_ADDRESS for row in rows if row[1] != SHT_NULL):
            raise Malformed(f"{view.what} claims a section beyond any address a CPU has")
        if names_at >= count:
            raise Malformed(f"{view.what} keeps its section names in section {names_at}, which does not exist")
        table, end = rows[names_at][4], rows[names_at][4] + rows[names_at][5]
        names = [view.text(table + row[0], end) if row[0] < rows[names_at][5] else "" for row in rows]
        return tuple(Section(name, *row[1:7]) for name, row in zip(names, rows, strict=True))

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)

    def content(self, section: Section) -> tuple[int, int]:
        """Offset and size of a section's bytes in the file, checked."""
        if section.kind == SHT_NOBITS:
            return section.offset, 0
        if not self.view.inside(section.offset, section.size):
            raise Malformed(f"{self.view.what}: section {section.name} lies outside the file")
        return section.offset, section.size

    @functools.cached_property
    def segments(self) -> tuple[Segment, ...]:
        """All program headers, whatever their kind."""
        view, size = self.view, self._phentsize
        if self._phoff == 0 or self._phnum == 0:
            return ()
        if size < 56 or not view.inside(self._phoff, self._phnum * size):
            raise Malformed(f"{view.what} claims {self._phnum} program headers at offset {self._phoff}")
        rows = [view.unpack("<IIQQQQ", self._phoff + i * size) for i in range(self._phnum)]
        if any(row[3] >= MAX_ADDRESS or row[5] >= MAX_ADDRESS for row in rows):
            raise Malformed(f"{view.what} claims a segment beyond any address a CPU has")
        return tuple(Segment(kind, flags, offset, address, size) for kind, flags, offset, address, _, size in rows)

    def offset_of(self, address: int) -> int | None:
        """Where in the file a mapped address lies."""
        for segment in self.segments:
            if segment.kind == PT_LOAD and segment.address <= address < segment.address + segment.file_size:
                return segment.offset + address - segment.address
        return None

    def address_of(self, offset: int) -> int | None:
        """Where a place in the file is mapped."""
        for segment in self.segments:
            if segment.kind == PT_LOAD and segment.offset <= offset < segment.offset + segment.file_size:
                return segment.address + offset - segment.offset
        return None

    @functools.cached_property
    def dynamic(self) -> tuple[tuple[int, int], ...]:
        """(tag, value) pairs of the dynamic section."""
        if (segment := next((s for s in self.segments if s.kind == PT_DYNAMIC), None)) is None:
            return ()
        if not self.view.inside(segment.offset, segment.file_size):
            raise Malformed(f"{self.view.what}: its dynamic section lies outside the file")
        count = min(segment.file_size // 16, MAX_ENTRIES)
        rows = struct.iter_unpack("<QQ", self.view.take(segment.offset, count * 16))
        return tuple(itertools.takewhile(lambda row: row[0] != 0, rows))

    def tag(self, name: str) -> int | None:
        """The first value that the dynamic section has under this name of :data:`DT`."""
        return next((value for tag, value in self.dynamic if tag == DT[name]), None)

    @functools.cached_property
    def _strings(self) -> tuple[int, int]:
        address, size = self.tag("STRTAB"), self.tag("STRSZ")
        if address is None or size is None:
            return 0, 0
        offset = self.offset_of(address)
        # patchelf may leave STRTAB as a file offset in odd files; then nothing maps it and we say so.
        if offset is None or not self.view.inside(offset, size):
            raise Malformed(f"{self.view.what}: its dynamic string table lies outside the file")
        return offset, offset + size

    def _string(self, index: int) -> str:
        start, end = self._strings
        return self.view.text(start + index, end)

    def _strings_of(self, name: str) -> tuple[str, ...]:
        return tuple(self._string(value) for tag, value in self.dynamic if tag == DT[name])

    @property
    def needed(self) -> tuple[str, ...]:
        """Libraries the loader must find first."""
        return self._strings_of("NEEDED")

    @property
    def soname(self) -> str | None:
        """The name others ask for it by."""
        return next(iter(self._strings_of("SONAME")), None)

    @property
    def rpath(self) -> tuple[str, ...]:
        """Search paths written into the file (RUNPATH beats RPATH, as in the loader)."""
        texts = self._strings_of("RUNPATH") or self._strings_of("RPATH")
        return tuple(part for text in texts for part in text.split(":") if part)

    @functools.cached_property
    def version_needs(self) -> tuple[Need, ...]:
        """The versions of symbols that it wants of other libraries."""
        address, count = self.tag("VERNEED"), self.tag("VERNEEDNUM")
        if address is None or not count:
            return ()
        if (offset := self.offset_of(address)) is None:
            raise Malformed(f"{self.view.what}: its version needs lie outside the file")
        out = []
        for at, (_, names, file, aux, _) in self._chained("<HHIII", offset, min(count, MAX_ENTRIES)):
            rows = [
                (self._string(name), number) for _, (_, _, number, name, _) in self._chained("<IHHII", at + aux, names)
            ]
            out.append(Need(self._string(file), tuple(row[0] for row in rows), tuple(row[1] for row in rows)))
        return tuple(out)

    def _chained(self, form: str, offset: int, count: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """(offset, fields) of rows whose last field says how far the next one is."""
        for _ in range(count):
            fields = self.view.unpack(form, offset)
            yield offset, fields
            if not fields[-1]:
                return
            offset += fields[-1]


@contextlib.contextmanager
def open_elf(path: Path) -> Iterator[Elf]:
    """An ELF file mapped, not read: libtorch_cuda.so has 900 MB."""
    with map_file(path) as data:
        with contextlib.suppress(AttributeError, OSError):
            data.madvise(mmap.MADV_RANDOM)
        yield Elf(data, path.name)
