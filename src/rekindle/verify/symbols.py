"""The function around an address in a shared library, read from the library's own symbol tables."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from rekindle.formats.elf import PT_LOAD, Elf
from rekindle.formats.view import Malformed
from rekindle.verify.linkage import open_elf

_FUNCTION, _FILE, _INDIRECT = 2, 4, 10
_ROW = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """``unit`` is the source file a local function was compiled from, as the linker wrote it down."""

    name: str
    start: int
    unit: str | None = None


def find_symbol(path: Path, offset: int) -> Symbol | None:
    """The function that holds the byte at ``offset`` of the file; None where no table tells."""
    try:
        with open_elf(path) as elf:
            address = _address(elf, offset)
            if address is None:
                return None
            return _look(elf, ".symtab", ".strtab", address) or _look(elf, ".dynsym", ".dynstr", address)
    except (Malformed, OSError, ValueError):
        return None


def _address(elf: Elf, offset: int) -> int | None:
    for segment in elf.segments:
        if segment.kind == PT_LOAD and segment.offset <= offset < segment.offset + segment.file_size:
            return segment.address + offset - segment.offset
    return None


def _look(elf: Elf, table: str, strings: str, address: int) -> Symbol | None:
    rows, names = elf.section(table), elf.section(strings)
    if rows is None or names is None:
        return None
    data = elf.view.take(rows.offset, rows.size // _ROW.size * _ROW.size)
    found: tuple[int, int, int] | None = None
    unit: int | None = None
    found_unit: int | None = None
    for name, info, _, section, start, size in _ROW.iter_unpack(data):
        kind = info & 15
        if kind == _FILE:
            unit = name
            continue
        if kind not in (_FUNCTION, _INDIRECT) or not section or not start <= address < start + max(size, 1):
            continue
        # The innermost wins where symbols overlap, and a global name beats a local alias of the same place.
        if found is None or start > found[1] or (start == found[1] and info >> 4):
            found, found_unit = (name, start, info >> 4), unit if not info >> 4 else None
    if found is None:
        return None
    end = names.offset + names.size
    source = elf.view.text(names.offset + found_unit, end) if found_unit else None
    return Symbol(name=elf.view.text(names.offset + found[0], end), start=found[1], unit=source or None)
