"""One section of a PE image with new content, in a new section behind the last: for what only pointers lead to.
Windows' twin of :mod:`rekindle.formats.elf_move`. A pointer is a slot that the loader relocates (DIR64): it is set to
the new place and stays relocated. The old content is zeroed and its section renamed: readers find the new one."""

import struct
from collections.abc import Sequence
from typing import IO

import numpy as np

from rekindle.formats.elf_move import Pointer, SectionPiece
from rekindle.formats.pe import BASE_RELOCATIONS, Pe, PeSection
from rekindle.formats.pe_rewrite import ImageLayout
from rekindle.formats.view import Malformed, round_up

OLD_NAME = b".rkold"
_DIR64 = 10
_ALIGN = 16


def image_pointers_into(pe: Pe, section: PeSection) -> tuple[Pointer, ...]:
    """Every relocated pointer to ``section``; addresses are those of the image at its preferred base."""
    at, length = pe.directory(BASE_RELOCATIONS) or (0, 0)
    end = at + length
    low = pe.image_base + section.address
    high = low + max(section.virtual_size, section.size)
    pointers: list[Pointer] = []
    while at + 8 <= end:
        page, size = pe.view.unpack("<II", at)
        if size < 8 or at + size > end:
            raise Malformed(f"{pe.view.what}: its relocations end in the middle")
        rows = np.frombuffer(pe.view.take(at + 8, (size - 8) // 2 * 2), "<u2")
        for row in rows[rows >> 12 == _DIR64].tolist():
            slot = pe.offset_of(page + (row & 0xFFF))
            if slot is not None and low <= (target := pe.view.number("<Q", slot)) < high:
                pointers.append(Pointer(slot, None, target))
        at += size
    return tuple(pointers)


def move_image_section(pe: Pe, section: PeSection, pieces: Sequence[SectionPiece], out: IO[bytes]) -> None:
    """Write the image with ``pieces`` as the new content of ``section`` to ``out``, an empty file."""
    blob, places = bytearray(), {}
    for piece in pieces:
        blob += bytes(round_up(len(blob), _ALIGN) - len(blob))
        places[piece.address] = len(blob)
        for part in piece.parts:
            blob += part if isinstance(part, bytes) else pe.view.take(*part)
    layout = ImageLayout(pe, bytes(blob), section.name.encode("ascii", "replace")[:8])
    pointers = image_pointers_into(pe, section)
    if strange := [pointer for pointer in pointers if pointer.target not in places]:
        raise Malformed(f"{pe.view.what}: {len(strange)} pointers lead into the middle of {section.name}")
    edits = layout.edits()
    for pointer in pointers:
        edits[pointer.slot] = struct.pack("<Q", pe.image_base + layout.address + places[pointer.target])
    number = pe.sections.index(section)
    edits[layout.table_end - 40 * (len(pe.sections) - number)] = OLD_NAME.ljust(8, b"\0")
    offset, size = pe.content(section)
    edits[offset] = bytes(size)
    layout.write(out, edits)
