"""Pointers of a Windows image at the edges of what they lead to, and each byte that is changed when it moves."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable

import pytest

from binaries import make_pe
from rekindle.formats.elf_move import Pointer, SectionPiece
from rekindle.formats.pe import Pe, PeSection
from rekindle.formats.pe_move import image_pointers_into, move_image_section
from rekindle.formats.view import Malformed

BASE = 0x180000000
# Sections as ``make_pe`` places them: the slots, the content, the relocations.
SLOTS_AT, FAT_AT, RELOC_AT = 0x2000, 0x3000, 0x4000
SLOTS_IN, FAT_IN = 0x400, 0x600
DIR64 = 10


def block(page: int, rows: Iterable[tuple[int, int]], *, size: int | None = None) -> bytes:
    body = b"".join(struct.pack("<H", kind << 12 | offset) for kind, offset in rows)
    return struct.pack("<II", page, 8 + len(body) if size is None else size) + body


def image(targets: Iterable[int], relocations: bytes, fat: bytes = b"F" * 0x180, length: int | None = None) -> Pe:
    """``targets`` fill the slots, eight bytes each."""
    slots = b"".join(struct.pack("<Q", BASE + target) for target in targets).ljust(0x100, b"\1")
    sections = {".data": slots, ".nv_fatb": fat, ".reloc": relocations}
    claimed = len(relocations) if length is None else length
    return Pe(make_pe(sections, more={5: (RELOC_AT, claimed)}), "odd.dll")


def fat_of(pe: Pe) -> PeSection:
    return next(section for section in pe.sections if section.name == ".nv_fatb")


def found(pe: Pe) -> list[tuple[int, int]]:
    """(slot's number, where it leads to within the section)."""
    pointers = image_pointers_into(pe, fat_of(pe))
    assert all(pointer.addend is None for pointer in pointers)
    return [((pointer.slot - SLOTS_IN) // 8, pointer.target - BASE - FAT_AT) for pointer in pointers]


def test_what_leads_into_the_section() -> None:
    """Its 0x180 bytes lie in 0x200 of the file; both belong to it."""
    targets = [FAT_AT - 1, FAT_AT, FAT_AT + 1, FAT_AT + 0x17F, FAT_AT + 0x180, FAT_AT + 0x1FF, FAT_AT + 0x200, 5]
    pe = image(targets, block(SLOTS_AT, [(DIR64, 8 * i) for i in range(len(targets))]))
    assert found(pe) == [(1, 0), (2, 1), (3, 0x17F), (4, 0x180), (5, 0x1FF)]
    assert image_pointers_into(pe, fat_of(pe))[0] == Pointer(SLOTS_IN + 8, None, BASE + FAT_AT)


def test_what_is_larger_in_memory_counts_there() -> None:
    pe = image([FAT_AT + 0x2FF, FAT_AT + 0x300], block(SLOTS_AT, [(DIR64, 0), (DIR64, 8)]))
    own = fat_of(pe)
    large = PeSection(own.name, own.address, 0x300, own.offset, own.size, own.flags)
    assert [pointer.target - BASE for pointer in image_pointers_into(pe, large)] == [FAT_AT + 0x2FF]


def test_only_relocated_slots_are_pointers() -> None:
    rows = [(0, 0), (3, 8), (DIR64, 16), (9, 24), (11, 32), (DIR64, 40), (0, 0)]
    assert found(image([FAT_AT] * 8, block(SLOTS_AT, rows))) == [(2, 0), (5, 0)]


def test_blocks_in_a_row_and_slots_by_their_pages() -> None:
    blocks = block(SLOTS_AT, [(DIR64, 8)]) + block(SLOTS_AT - 0x1000, []) + block(SLOTS_AT - 0x800, [(DIR64, 0x810)])
    assert found(image([FAT_AT, FAT_AT + 4, FAT_AT + 8], blocks)) == [(1, 4), (2, 8)]
    nowhere = block(0x900000, [(DIR64, 0)]) + block(SLOTS_AT, [(DIR64, 0)])
    assert found(image([FAT_AT], nowhere)) == [(0, 0)], "a slot that is not in the file leads nowhere"


@pytest.mark.parametrize("more", range(8))
def test_less_than_a_block_at_the_end_is_none(more: int) -> None:
    one = block(SLOTS_AT, [(DIR64, 0)])
    assert found(image([FAT_AT], one + bytes(more))) == [(0, 0)]


@pytest.mark.parametrize(("size", "taken"), [(0, False), (7, False), (8, True), (9, True), (10, True), (11, False)])
def test_a_block_has_a_head_and_an_end(size: int, taken: bool) -> None:
    """Ten bytes are there; of an odd size the last one is no row."""
    pe = image([FAT_AT], block(SLOTS_AT, [(DIR64, 0)], size=size), length=10)
    if taken:
        assert found(pe) == ([(0, 0)] if size == 10 else [])
    else:
        with pytest.raises(Malformed, match=r"odd\.dll: its relocations end in the middle"):
            found(pe)


def test_an_image_without_relocations_has_no_pointers() -> None:
    pe = Pe(make_pe({".nv_fatb": b"F" * 9}))
    assert image_pointers_into(pe, fat_of(pe)) == ()


def test_every_byte_of_what_moves() -> None:
    targets = [FAT_AT + 0x20, FAT_AT, FAT_AT + 0x20, FAT_AT - 8, FAT_AT + 0x100]
    fat = bytes(range(1, 0xC1)) * 2
    pe = image(targets, block(SLOTS_AT, [(DIR64, 8 * i) for i in range(6)]), fat)
    pieces = [
        SectionPiece(BASE + FAT_AT, ((FAT_IN + 3, 5), b"new")),
        SectionPiece(BASE + FAT_AT + 0x20, (b"x" * 16,)),
        SectionPiece(BASE + FAT_AT + 0x100, (b"y", (FAT_IN, 2))),
    ]
    out = io.BytesIO()
    move_image_section(pe, fat_of(pe), pieces, out)
    after = Pe(out.getvalue())
    assert [section.name for section in after.sections] == [".idata", ".data", ".rkold", ".reloc", ".nv_fatb"]
    new = after.sections[-1]
    content = after.view.take(*after.content(new))
    assert content == (bytes([4, 5, 6, 7, 8]) + b"new").ljust(16, b"\0") + b"x" * 16 + b"y\1\2"
    assert (new.virtual_size, new.size) == (35, 0x200) and after.view.size == new.offset + new.size
    wanted = [new.address + 16, new.address, new.address + 16, FAT_AT - 8, new.address + 32]
    assert after.view.unpack("<5Q", SLOTS_IN) == tuple(BASE + target for target in wanted)
    assert not any(after.view.take(*after.content(after.sections[2])))
    assert after.sections[:2] == pe.sections[:2] and after.sections[3] == pe.sections[3]
    assert after.view.take(*after.content(after.sections[3])) == pe.view.take(*pe.content(pe.sections[3]))


def test_pointers_to_no_piece_are_refused() -> None:
    pe = image([FAT_AT, FAT_AT + 8, FAT_AT + 9], block(SLOTS_AT, [(DIR64, 8 * i) for i in range(3)]))
    out = io.BytesIO()
    with pytest.raises(Malformed, match=r"odd\.dll: 2 pointers lead into the middle of \.nv_fatb"):
        move_image_section(pe, fat_of(pe), [SectionPiece(BASE + FAT_AT, (b"x",))], out)
    assert out.getvalue() == b"", "nothing is written then"
