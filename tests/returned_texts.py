"""A library whose code returns one text, as a torch's does with its list of architectures."""

from __future__ import annotations

import struct

from rekindle.formats.elf import Elf

OLD = b"sm_75 sm_80 sm_120"
NEW = b"sm_75 sm_80 sm_90 sm_120"
TEXT_AT, CODE_AT, END = 0x1000, 0x2000, 0x4000
NAMES = ("", ".rodata", ".text", ".shstrtab")


def make_returning_library(
    machine: int = 62, *, code: bytes | None = None, behind: bytes = b"", text: bytes = OLD
) -> bytes:
    """Read-only data with the text, then code that leads to it; ``behind`` follows the data where room could be."""
    rodata = b"\0other\0" + text + b"\0"
    where = TEXT_AT + 7
    if code is None and machine == 62:
        code = b"\x90" * 32 + b"\x48\x8d\x3d" + struct.pack("<i", where - (CODE_AT + 39)) + b"\xe8\0\0\0\0"
    elif code is None:
        pages = (where >> 12) - (CODE_AT >> 12)
        adrp = 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        code = struct.pack("<IIII", 0xD503201F, adrp, 0x91000000 | (where & 0xFFF) << 10, 0x94000000)
    image = bytearray(END)
    labels = b"".join(name.encode() + b"\0" for name in NAMES)
    image[TEXT_AT : TEXT_AT + len(rodata)] = rodata
    image[TEXT_AT + len(rodata) : TEXT_AT + len(rodata) + len(behind)] = behind
    image[CODE_AT : CODE_AT + len(code)] = code
    rows = [(0, 0, 0, 0, 0, 0), (1, 1, 2, TEXT_AT, TEXT_AT, len(rodata)), (9, 1, 6, CODE_AT, CODE_AT, len(code)),
            (15, 3, 0, 0, END - 64, len(labels))]  # fmt: skip
    image[END - 64 : END - 64 + len(labels)] = labels
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, END, 0, 64, 56, 2, 64, len(rows), 3)
    image[:64] = head
    for i, (flags, at, size) in enumerate(((4, TEXT_AT, len(rodata)), (5, CODE_AT, 0x1000))):
        image[64 + 56 * i : 120 + 56 * i] = struct.pack("<IIQQQQQQ", 1, flags, at, at, at, size, size, 0x1000)
    return bytes(image) + b"".join(struct.pack("<IIQQQQIIQQ", *row, 0, 0, 1, 0) for row in rows)


def returned_text(data: bytes, machine: int) -> bytes:
    """The text that the code leads to."""
    if machine == 62:
        (distance,) = struct.unpack_from("<i", data, CODE_AT + 35)
        where = CODE_AT + 39 + distance
    else:
        adrp, add = struct.unpack_from("<II", data, CODE_AT + 4)
        pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
        where = ((CODE_AT >> 12) + pages - (1 << 21 if pages >> 20 else 0)) * 4096 + (add >> 10 & 0xFFF)
    place = Elf(data).offset_of(where)
    assert place is not None, "it is mapped"
    return data[place : data.index(b"\0", place)]
