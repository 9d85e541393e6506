"""An ELF file made of parts one chooses: each with its own address, which is not its place in the file."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from rekindle.formats.elf import Elf

PROGBITS, SYMTAB, STRTAB, RELA, NOBITS = 1, 2, 3, 4, 8
ALLOC, CODE = 2, 6
FUNC, OBJECT, FILE, IFUNC = 2, 1, 4, 10
LOCAL, GLOBAL, WEAK = 0, 1, 2


@dataclass
class Part:
    """A section. ``link`` names the section of its strings; ``says`` is the size its header claims."""

    name: str
    data: bytes = b""
    address: int = 0
    kind: int = PROGBITS
    flags: int = ALLOC
    link: str = ""
    says: int | None = None


def names(*texts: str) -> tuple[bytes, dict[str, int]]:
    """A table of strings, and where each lies in it."""
    table, at = b"\0", {"": 0}
    for text in texts:
        at[text] = len(table)
        table += text.encode() + b"\0"
    return table, at


def symbol(name: int, value: int, *, kind: int = FUNC, binding: int = GLOBAL, section: int = 1, size: int = 0) -> bytes:
    return struct.pack("<IBBHQQ", name, binding << 4 | kind, 0, section, value, size)


def rela(where: int, kind: int, addend: int = 0, symbol: int = 0) -> bytes:
    return struct.pack("<QQq", where, symbol << 32 | kind, addend)


def small_elf(
    parts: Iterable[Part], *, machine: int = 62, sections: bool = True, segments: Iterable[tuple[int, int, str]] = ()
) -> Elf:
    """Every part with an address is mapped there. ``segments``: instead of that, (kind, flags, part)."""
    rows = [Part("", kind=0), *parts, Part(".shstrtab", kind=STRTAB, flags=0)]
    rows[-1].data, label = names(*(row.name for row in rows))
    mapped = list(segments) or [(1, 5, row.name) for row in rows if row.address and row.kind != NOBITS]
    number = {row.name: at for at, row in enumerate(rows)}
    body, place = bytearray(64 + 56 * len(mapped)), []
    for row in rows:
        body += bytes(-len(body) % 16 + 16)
        place.append(len(body))
        body += row.data
    body += bytes(-len(body) % 16)
    table = len(body)
    if sections:
        for row, at in zip(rows, place, strict=True):
            size = len(row.data) if row.says is None else row.says
            link = number.get(row.link, 0xFFF)
            body += struct.pack(
                "<IIQQQQIIQQ", label[row.name], row.kind, row.flags, row.address, at, size, link, 0, 1, 0
            )
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHH", 3, machine, 1, 0, 64, table if sections else 0, 0, 64, 56)
    head += struct.pack("<HHHH", len(mapped), 64, len(rows) if sections else 0, len(rows) - 1 if sections else 0)
    body[:64] = head
    for at, (kind, flags, name) in enumerate(mapped):
        row = rows[number[name]]
        size = len(row.data)
        body[64 + 56 * at : 120 + 56 * at] = struct.pack(
            "<IIQQQQQQ", kind, flags, place[number[name]], row.address, row.address, size, size, 16
        )
    return Elf(bytes(body), "made by hand")
