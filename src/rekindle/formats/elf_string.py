"""A longer text in the place of one that a library's code returns: the new one lies in room that was empty padding, and
the one instruction that names the old one names the new one. Only where that is certain: exactly one instruction leads
to the old text, no length of it stands beside that, and a segment that is mapped anyway has zeros behind it which
belong to nobody. Otherwise nothing is changed."""

import struct
from typing import NamedTuple

import numpy as np

from rekindle.formats.code_scan import adrp_pages
from rekindle.formats.elf import PT_LOAD, SHF_EXECINSTR, SHT_NOBITS, Elf, Section
from rekindle.formats.view import round_up

_PAGE = 0x1000
_WRITE = 2
_SEGMENT = struct.Struct("<IIQQQQQQ")
# How far from the instruction a length would stand: strings are handed over as (pointer, length) in two registers.
_NEAR = 24


class ByteEdit(NamedTuple):
    """Bytes to write at a file offset."""

    offset: int
    content: bytes


def replace_text(elf: Elf, offset: int, old: bytes, new: bytes) -> tuple[ByteEdit, ...] | None:
    """The edits that make the library's code return ``new`` where it returned ``old``, which lies at ``offset`` and
    ends with a zero; None where it cannot be done with certainty."""
    find = {"x86_64": _find_lea, "aarch64": _find_adrp}.get(elf.machine)
    address, room = elf.address_of(offset), _find_room(elf, len(new) + 1)
    if find is None or address is None or room is None:
        return None
    place, target, edit = room
    code = [section for section in elf.sections if section.flags & SHF_EXECINSTR and section.kind != SHT_NOBITS]
    named = [reference for section in code for reference in find(elf, section, address, target)]
    if len(named) != 1 or _has_length(elf, named[0][0].offset, len(old)):
        return None
    return (ByteEdit(place, new + b"\0"), edit, *named[0])


def _find_room(elf: Elf, size: int) -> tuple[int, int, ByteEdit] | None:
    """(file offset, address, edit of its segment) of zeros behind a read-only segment, inside its last page."""
    view = elf.view
    phoff, shoff = view.unpack("<QQ", 32)
    rows = [view.unpack(_SEGMENT.format, phoff + _SEGMENT.size * i) for i in range(len(elf.segments))]
    used = [(row[2], row[5]) for row in rows if row[5]]
    used += [(section.offset, section.size) for section in elf.sections if section.kind not in (0, SHT_NOBITS)]
    used += [(phoff, _SEGMENT.size * len(rows)), (shoff, 64 * len(elf.sections))]
    for number, (kind, flags, offset, address, physical, file_size, memory, align) in enumerate(rows):
        if kind != PT_LOAD or flags & _WRITE or file_size != memory or not file_size:
            continue
        place, target = offset + file_size, address + file_size
        above = [row[3] for row in rows if row[0] == PT_LOAD and row[3] >= target]
        limit = min([round_up(target, _PAGE), *above])
        if target + size > limit or not view.inside(place, size) or any(view.take(place, size)):
            continue
        if not any(at < place + size and at + length > place for at, length in used):
            grown = _SEGMENT.pack(kind, flags, offset, address, physical, file_size + size, memory + size, align)
            return place, target, ByteEdit(phoff + _SEGMENT.size * number, grown)
    return None


def _find_lea(elf: Elf, section: Section, old: int, new: int) -> list[tuple[ByteEdit, ...]]:
    """``lea reg, [rip + distance]``: the distance is all that changes."""
    offset, size = elf.content(section)
    edits: list[tuple[ByteEdit, ...]] = []
    for shift in range(4):
        count = (size - shift) // 4
        words = np.frombuffer(elf.view.data, "<i4", count=max(count, 0), offset=offset + shift).astype(np.int64)
        at = np.arange(len(words)) * 4 + shift
        for place in at[words == old - (section.address + at + 4)].tolist():
            before = bytes(elf.view.data[offset + place - 3 : offset + place]) if place >= 3 else b""
            distance = new - (section.address + place + 4)
            if before[:2] in (b"\x48\x8d", b"\x4c\x8d") and before[2] & 0xC7 == 5 and abs(distance) < 1 << 31:
                edits.append((ByteEdit(offset + place, struct.pack("<i", distance)),))
            else:
                # Some other instruction that reaches it: then we do not know what leads there.
                edits += [(), ()]
    return edits


def _find_adrp(elf: Elf, section: Section, old: int, new: int) -> list[tuple[ByteEdit, ...]]:
    """``adrp reg, page`` and, among the next instructions, ``add reg, reg, low``."""
    offset, size = elf.content(section)
    words = np.frombuffer(elf.view.data, "<u4", count=size // 4, offset=offset).astype(np.int64)
    at = section.address + np.arange(len(words)) * 4
    hits = np.flatnonzero(((words & 0x9F000000) == 0x90000000) & ((at >> 12) + adrp_pages(words) == old >> 12))
    edits: list[tuple[ByteEdit, ...]] = []
    for index in hits.tolist():
        register = int(words[index]) & 31
        for following in range(index + 1, min(index + 9, len(words))):
            word = int(words[following])
            if word & 0xFFC003E0 == 0x91000000 | register << 5 and word >> 10 & 0xFFF == old & 0xFFF:
                distance = (new >> 12) - (int(at[index]) >> 12)
                if not -(1 << 20) <= distance < 1 << 20:
                    continue
                first = int(words[index]) & 0x9F00001F | (distance & 3) << 29 | (distance >> 2 & 0x7FFFF) << 5
                second = word & ~(0xFFF << 10) | (new & 0xFFF) << 10
                page = ByteEdit(offset + 4 * index, struct.pack("<I", first))
                edits.append((page, ByteEdit(offset + 4 * following, struct.pack("<I", second))))
                break
    return edits


def _has_length(elf: Elf, place: int, length: int) -> bool:
    """Does a number like the text's length stand near the instruction? Then changing the pointer is not enough."""
    near = bytes(elf.view.data[max(place - _NEAR, 0) : place + _NEAR])
    if elf.machine == "x86_64":
        return struct.pack("<I", length) in near
    words = [word for (word,) in struct.iter_unpack("<I", near[: len(near) // 4 * 4])]
    return any(word & 0x7F800000 == 0x52800000 and word >> 5 & 0xFFFF == length for word in words)
