"""PE images (``.dll``, ``.pyd``, ``.exe``), 64-bit: sections, imports, delayed imports, function table. Addresses are
RVAs. What the loader would ignore is ignored; what would send it outside the file is :class:`Malformed`."""

import functools
import itertools
from dataclasses import dataclass
from typing import Any

from rekindle.formats.view import Malformed, View

MACHINES = {0x8664: "x86_64", 0xAA64: "aarch64", 0x14C: "x86", 0xA641: "arm64ec"}
EXPORT, IMPORT, EXCEPTION, CERTIFICATE, BASE_RELOCATIONS, DEBUG = 0, 1, 3, 4, 5, 6
LOAD_CONFIG, BOUND_IMPORT, DELAY_IMPORT = 10, 11, 13
EXECUTE, WRITE = 0x20000000, 0x80000000
MAX_IMPORTS = 4096
MAX_EXPORTS = 1 << 18
MAX_IMPORTED = 1 << 18
# Windows itself loads no image with more than 96 sections.
MAX_SECTIONS = 96


@dataclass(frozen=True)
class PeSection:
    """``address`` is where it is mapped, ``offset`` where its ``size`` bytes lie in the file."""

    name: str
    address: int
    virtual_size: int
    offset: int
    size: int
    flags: int


class _NameReader:
    """The names of one table. Together they cannot be longer than the file, unless one is named over and over."""

    def __init__(self, view: View) -> None:
        self._view, self._left = view, view.size

    def text(self, offset: int) -> str:
        name = self._view.text(offset)
        self._left -= len(name)
        if self._left < 0:
            raise Malformed(f"{self._view.what} repeats its names until they are longer than the file")
        return name


def is_pe(head: bytes) -> bool:
    return head[:2] == b"MZ"


class Pe:
    """One image; tables are read when they are asked for."""

    format = "pe"
    soname: str | None = None
    rpath: tuple[str, ...] = ()

    def __init__(self, data: Any, what: str = "file") -> None:
        self.view = view = View(data, what)
        if not is_pe(view.take(0, 2)):
            raise Malformed(f"{what} is no Windows library")
        start = view.number("<I", 0x3C)
        if view.take(start, 4) != b"PE\0\0":
            raise Malformed(f"{what} is a DOS program or damaged: no PE header at offset {start}")
        machine, count, _, _, _, optional, _ = view.unpack("<HHIIIHH", start + 4)
        self.machine = MACHINES.get(machine, f"machine {machine:#x}")
        if count > MAX_SECTIONS:
            raise Malformed(f"{what} has {count} sections; Windows loads at most {MAX_SECTIONS}")
        header = start + 24
        if view.number("<H", header) != 0x20B:
            raise Malformed(f"{what} is a 32-bit Windows library; only 64-bit ones are read")
        self.image_base = view.number("<Q", header + 24)
        number = min(view.number("<I", header + 108), 16)
        self.directories = tuple(view.unpack("<II", header + 112 + 8 * i) for i in range(number))
        places = range(header + optional, header + optional + 40 * count, 40)
        rows = [(view.take(at, 8), *view.unpack("<IIII", at + 8), view.number("<I", at + 36)) for at in places]
        self.sections = tuple(
            PeSection(name.rstrip(b"\0").decode("utf-8", "backslashreplace"), address, virtual, offset, size, flags)
            for name, virtual, address, size, offset, flags in rows
        )

    def content(self, section: PeSection) -> tuple[int, int]:
        """Offset and size of a section's bytes in the file, without the padding of the last page."""
        size = min(section.size, section.virtual_size or section.size)
        if not self.view.inside(section.offset, size):
            raise Malformed(f"{self.view.what}: section {section.name} lies outside the file")
        return section.offset, size

    def offset_of(self, address: int) -> int | None:
        for section in self.sections:
            if section.address <= address < section.address + section.size:
                return section.offset + address - section.address
        return None

    def directory(self, index: int) -> tuple[int, int] | None:
        """File offset and size of a data directory, if the image has it."""
        if index >= len(self.directories) or not self.directories[index][0]:
            return None
        address, size = self.directories[index]
        if (offset := self.offset_of(address)) is None:
            raise Malformed(f"{self.view.what}: directory {index} lies outside the file")
        return offset, size

    def _library_names(self, index: int, step: int, field: int) -> tuple[str, ...]:
        if (table := self.directory(index)) is None:
            return ()
        out: list[str] = []
        names = _NameReader(self.view)
        for i in range(MAX_IMPORTS):
            row = self.view.unpack(f"<{step // 4}I", table[0] + i * step)
            if not row[field] or not any(row):
                return tuple(out)
            # Very old delay-import tables hold addresses instead of RVAs (attribute bit 0 clear).
            address = row[field] - (self.image_base if index == DELAY_IMPORT and not row[0] & 1 else 0)
            if (offset := self.offset_of(address)) is None:
                raise Malformed(f"{self.view.what}: the name of import {i} lies outside the file")
            out.append(names.text(offset))
        raise Malformed(f"{self.view.what} imports from more than {MAX_IMPORTS} libraries")

    @functools.cached_property
    def needed(self) -> tuple[str, ...]:
        """Libraries the loader must find before the image starts."""
        return self._library_names(IMPORT, 20, 3)

    @functools.cached_property
    def delayed(self) -> tuple[str, ...]:
        """Libraries loaded at first use."""
        return self._library_names(DELAY_IMPORT, 32, 1)

    @functools.cached_property
    def cookie(self) -> int | None:
        """The variable that functions with arrays on the stack read to notice an overrun."""
        table = self.directory(LOAD_CONFIG)
        if table is None or table[1] < 0x60 or not self.view.inside(table[0], 0x60):
            return None
        value = self.view.number("<Q", table[0] + 0x58)
        return value - self.image_base if value else None

    @functools.cached_property
    def imports(self) -> dict[int, tuple[str, str]]:
        """Slot the loader fills -> (library, name), without imports by number and those the file has no bytes for."""
        start, _ = self.directory(IMPORT) or (0, 0)
        out: dict[int, tuple[str, str]] = {}
        # Of all libraries together: several may point at one and the same list.
        left, names = MAX_IMPORTED + 1, _NameReader(self.view)
        for i, library in enumerate(self.needed):
            lookup, _, _, _, slots = self.view.unpack("<5I", start + 20 * i)
            if (at := self.offset_of(lookup or slots)) is None:
                continue
            for row in itertools.count():
                if not (value := self.view.number("<Q", at + 8 * row)):
                    break
                left -= 1
                if not left:
                    raise Malformed(f"{self.view.what} imports more than {MAX_IMPORTED} functions")
                name = None if value >> 63 else self.offset_of((value & 0x7FFFFFFF) + 2)
                if name is not None:
                    out[slots + 8 * row] = (library, names.text(name))
        return out

    @functools.cached_property
    def exports(self) -> tuple[tuple[int, str], ...]:
        """(address, name) of the named exports."""
        count, names, *at = self._export_table
        if names and (names > MAX_EXPORTS or None in at):
            raise Malformed(f"{self.view.what}: its export table cannot be")
        out, texts = [], _NameReader(self.view)
        for i in range(names):
            ordinal = self.view.number("<H", at[2] + 2 * i)
            name = self.offset_of(self.view.number("<I", at[1] + 4 * i))
            if ordinal < count and name is not None:
                out.append((self.view.number("<I", at[0] + 4 * ordinal), texts.text(name)))
        return tuple(out)

    @functools.cached_property
    def _export_table(self) -> tuple[Any, ...]:
        """How many functions and names; where those and the numbers of the named ones stand (None: nowhere)."""
        if (table := self.directory(EXPORT)) is None:
            return 0, 0, None, None, None
        count, names, *places = self.view.unpack("<5I", table[0] + 20)
        return count, names, *map(self.offset_of, places)

    @functools.cached_property
    def forwards(self) -> tuple[str, ...]:
        """Libraries that some of the exports are handed on to: ``NAME`` of ``NAME.function``, without ``.dll``. The
        loader looks for them when such an export is asked for."""
        count, _, functions, *_ = self._export_table
        if not count or functions is None:
            return ()
        if count > MAX_EXPORTS:
            raise Malformed(f"{self.view.what}: its export table cannot be")
        start, size = self.directories[EXPORT]
        names = _NameReader(self.view)
        addresses = (self.view.number("<I", functions + 4 * i) for i in range(count))
        offsets = (self.offset_of(address) for address in addresses if start <= address < start + size)
        libraries = (names.text(offset).rpartition(".")[0] for offset in offsets if offset is not None)
        return tuple(dict.fromkeys(filter(None, libraries)))
