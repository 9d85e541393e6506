"""A moved section in memory: all that had an address has it still, whatever the old file looked like."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.formats import elf_move
from rekindle.formats.elf import Elf, Section
from rekindle.formats.elf_move import Pointer, SectionPiece, move_section, pointers_into
from rekindle.formats.view import Malformed

PAGE = 0x1000
LOAD, PHDR, STACK = 1, 6, 0x6474E551
SEGMENT, SECTION = "<IIQQQQQQ", "<IIQQQQIIQQ"
SHIFT, DATA_SHIFT = 0x100000, 0x200000
Row = tuple[int, ...]


@dataclass
class Library:
    """Headers and relocations; ``before`` bytes, the section, ``behind`` bytes in one segment; slots in another.
    ``leads``: where the slots lead to, from the section's beginning."""

    before: int = 0x100
    size: int = 0x3000
    behind: int = 0x80
    leads: Sequence[int] = (0, 0x40)
    align: int = PAGE
    packed: bool = False
    phdr: bool = True
    trailing: bytes = b""
    more_segments: Sequence[Row] = ()
    more_sections: Sequence[Row] = ()
    start: int = PAGE
    shift: int = SHIFT
    fat: int = field(init=False)
    data: int = field(init=False)

    def __post_init__(self) -> None:
        self.fat = self.start + self.before
        self.data = -(-(self.fat + self.size + self.behind) // PAGE) * PAGE

    def image(self) -> bytes:
        slots = [self.data + DATA_SHIFT + 16 * i for i in range(len(self.leads))]
        targets = [self.fat + self.shift + lead for lead in self.leads]
        held = b"".join(struct.pack("<Qq", target if self.packed else 0, -i) for i, target in enumerate(targets))
        held += b"variables"
        table = b"".join(struct.pack("<QQq", *row) for row in zip(slots, [8] * len(slots), targets, strict=True))
        if self.packed:
            table = struct.pack(f"<{len(slots)}Q", *slots)
        names = b"\0.rela\0.fat\0"
        end = self.data + len(held)
        rows: list[Row] = [
            (0,) * 10,
            (1, 19 if self.packed else 4, 2, 0x400, 0x400, len(table), 0, 0, 8, 8 if self.packed else 24),
            (7, 1, 2, self.fat + self.shift, self.fat, self.size, 3, 5, 8, 7),
            (0, 8, 3, end + DATA_SHIFT, end, 0x5000, 0, 0, 1, 0),
            (0, 3, 0, 0, end, len(names), 0, 0, 1, 0),
            *self.more_sections,
        ]
        place = -(-(end + len(names)) // 8) * 8
        length = self.fat + self.size + self.behind - self.start
        segments: list[Row] = [(PHDR, 4, 64, 64, 64, 1, 1, 8)] if self.phdr else []
        segments += [
            (LOAD, 4, 0, 0, 0, 0x800, 0x800, self.align),
            (LOAD, 5, self.start, self.start + self.shift, self.start + 7, length, length, self.align),
            (LOAD, 6, self.data, self.data + DATA_SHIFT, 0, len(held), len(held) + 0x345, self.align),
            (STACK, 6, 0, 0, 0, 0, 0, 16),
            *self.more_segments,
        ]
        out = bytearray(place)
        for at in range(self.start, self.data, 4):
            struct.pack_into("<I", out, at, at | 0x80000001)
        out[self.data : end] = held
        out[end : end + len(names)] = names
        head = b"\x7fELF\x02\x01\x01" + bytes(9)
        head += struct.pack(
            "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, place, 0, 64, 56, len(segments), 64, len(rows), 4
        )  # fmt: skip
        out[:64] = head
        headers = b"".join(struct.pack(SEGMENT, *segment) for segment in segments)
        out[64 : 64 + len(headers)] = headers
        out[0x400 : 0x400 + len(table)] = table
        return bytes(out) + b"".join(struct.pack(SECTION, *row) for row in rows) + self.trailing


def fat_of(elf: Elf) -> Section:
    section = elf.section(".fat")
    assert section is not None
    return section


NEW = {0: b"first piece", 0x40: b"the second"}


def moved(data: bytes, pieces: dict[int, bytes] | None = None, align: int = 16) -> bytes:
    elf, out = Elf(data, "lib.so"), io.BytesIO()
    section = fat_of(elf)
    made = [
        SectionPiece(section.address + at, (content,)) for at, content in (NEW if pieces is None else pieces).items()
    ]
    move_section(elf, section, made, out, align)
    return out.getvalue()


def segments_of(data: bytes) -> list[Row]:
    at, count = Elf(data).view.number("<Q", 32), Elf(data).view.number("<H", 56)
    return [struct.unpack_from(SEGMENT, data, at + 56 * i) for i in range(count)]


def memory(data: bytes) -> dict[int, bytes]:
    """What the loader maps, page by page as it must, by its addresses."""
    out: dict[int, bytes] = {}
    for kind, _, offset, address, _, size, inside, align in segments_of(data):
        if kind == LOAD:
            assert (offset - address) % align == 0 and offset + size <= len(data) and size <= inside
            out[address] = data[offset : offset + size] + bytes(inside - size)
    return out


def at(data: bytes, address: int, size: int) -> bytes:
    if size == 0:
        return b""
    [found] = [
        content[address - begin : address - begin + size]
        for begin, content in memory(data).items()
        if begin <= address and address + size <= begin + len(content)
    ]
    return found


def check(library: Library, pieces: dict[int, bytes] | None = None, align: int = 16) -> bytes:
    """All that was mapped is, but for the section; slots and relocations lead to the new pieces."""
    pieces = NEW if pieces is None else pieces
    before = library.image()
    after = moved(before, pieces, align)
    low, high = library.fat + library.shift, library.fat + library.shift + library.size
    begin = library.start + library.shift
    assert at(after, 0x700, 0x100) == at(before, 0x700, 0x100)
    assert at(after, begin, low - begin) == at(before, begin, low - begin)
    assert at(after, high, library.behind) == at(before, high, library.behind)
    slots = library.data + DATA_SHIFT
    for number, lead in enumerate(library.leads):
        target, rest = struct.unpack("<Qq", at(after, slots + 16 * number, 16))
        assert at(after, target, len(pieces[lead])) == pieces[lead] and target % align == 0 and rest == -number
        if not library.packed:
            addend = struct.unpack_from("<q", after, 0x400 + 24 * number + 16)[0]
            assert addend == target
    end = slots + 16 * len(library.leads)
    assert at(after, end, 9 + 0x345) == b"variables" + bytes(0x345)
    elf = Elf(after)
    section = fat_of(elf)
    new = max((row for row in segments_of(after) if row[0] == LOAD), key=lambda row: row[3])
    assert section.address + section.size == new[3] + new[5] and section.offset - section.address == new[2] - new[3]
    assert new[0] == LOAD and new[1] == 4 and new[5] == new[6] and new[2] == elf.view.number("<Q", 32)
    assert sorted(memory(after)) == [row[3] for row in segments_of(after) if row[0] == LOAD]
    assert elf.view.size - len(library.trailing if library.trailing else b"") >= elf.view.number("<Q", 40)
    assert [pointer.target for pointer in pointers_into(elf, section)] == [
        struct.unpack("<Q", at(after, slots + 16 * number, 8))[0] for number in range(len(library.leads))
    ]
    return after


@given(
    before=st.sampled_from([0, 8, 0x100, 0xFFF, PAGE, PAGE + 1]),
    size=st.sampled_from([0x48, 0xF00, PAGE, PAGE + 0x100, 0x3000, 0x30F8, 0x8000]),
    behind=st.sampled_from([0, 1, 0x80, PAGE]),
    packed=st.booleans(),
    phdr=st.booleans(),
    trailing=st.sampled_from([b"", b"x", bytes(8)]),
    align=st.sampled_from([1, 8, 16, 64, PAGE]),
)
def test_all_that_had_an_address_has_it_still(
    before: int, size: int, behind: int, packed: bool, phdr: bool, trailing: bytes, align: int
) -> None:
    library = Library(before, size, behind, packed=packed, phdr=phdr, trailing=trailing)
    check(library, align=align)


def cut_of(library: Library) -> int:
    """How many bytes of the old content leave the file: what is new is put into pages of the same number each time."""
    kept = next(row for row in segments_of(check(library)) if row[3] == library.data + DATA_SHIFT)
    return library.data - kept[2]


@pytest.mark.parametrize(
    ("before", "size", "gone"),
    [(0, PAGE, 1), (0, PAGE - 1, 0), (0, 2 * PAGE - 1, 1), (1, PAGE, 0), (1, 2 * PAGE - 2, 0), (1, 2 * PAGE - 1, 1),
     (PAGE - 1, PAGE + 1, 1), (PAGE - 1, PAGE, 0), (0x100, 0x3000, 2), (0, 0x3000, 3)],
)  # fmt: skip
def test_whole_pages_leave_the_file(before: int, size: int, gone: int) -> None:
    assert cut_of(Library(before, size)) == gone * PAGE


def fixed(kind: int, offset: int, size: int) -> Row:
    return kind, 2, 0, offset, size, 0, 0, 1, 0


@pytest.mark.parametrize(
    ("offset", "size", "gone"),
    [
        (0x2000, 1, 0),
        (0x1FFF, 1, 2),
        (0x1FF0, 0x11, 0),
        (0x3FFF, 1, 0),
        (0x4000, 1, 2),
        (0x2800, 0, 2),
        (0x1000, 0x3001, 0),
    ],
)
def test_pages_that_others_lie_in_stay(offset: int, size: int, gone: int) -> None:
    """The section's own whole pages are those from 0x2000 to 0x4000."""
    for kind in (1, 7):
        assert cut_of(Library(more_sections=[(0, *fixed(kind, offset, size))])) == gone * PAGE
    for kind in (0, 8):
        assert cut_of(Library(more_sections=[(0, *fixed(kind, offset, size))])) == 2 * PAGE
    assert cut_of(Library(more_segments=[(4, 4, offset, 0, 0, size, 0, 1)])) == gone * PAGE


def test_a_section_in_two_segments_or_in_none_keeps_its_pages() -> None:
    library = Library()
    home = segments_of(library.image())[2]
    twice = Library(more_segments=[(LOAD, 4, PAGE, 0x900000, 0, *home[5:])]).image()
    image = library.image()
    for less in (0x80, 0x81):
        short = bytearray(image)
        struct.pack_into("<QQ", short, 64 + 2 * 56 + 32, home[5] - less, home[5] - less)
        kept = next(row for row in segments_of(moved(bytes(short))) if row[3] == library.data + DATA_SHIFT)
        assert kept[2] == library.data - (2 * PAGE if less == 0x80 else 0)
    odd = Library(shift=SHIFT + 8, align=8)
    for image in (twice, odd.image()):
        kept = next(row for row in segments_of(moved(image)) if row[3] == library.data + DATA_SHIFT)
        assert kept[2] == library.data, "of what begins in the middle of a page no page can go"


def test_the_segments_around_what_left() -> None:
    library = Library(before=0, behind=0, size=2 * PAGE)
    rows = segments_of(check(library))
    assert [row[3] for row in rows if row[0] == LOAD][:2] == [0, library.data + DATA_SHIFT], "nothing is left of it"
    rows = segments_of(check(Library(before=0)))
    assert (LOAD, 5, PAGE, 4 * PAGE + SHIFT, 4 * PAGE + 7, 0x80, 0x80, PAGE) in rows
    rows = segments_of(check(Library(behind=0)))
    assert (LOAD, 5, PAGE, PAGE + SHIFT, PAGE + 7, PAGE, PAGE, PAGE) in rows
    assert (LOAD, 5, 2 * PAGE, 4 * PAGE + SHIFT, 4 * PAGE + 7, 0x100, 0x100, PAGE) in rows
    assert (STACK, 6, 0, 0, 0, 0, 0, 16) in rows


def test_what_the_last_segment_has_only_in_memory_stays() -> None:
    library = Library(before=0, behind=0, size=2 * PAGE)
    image = bytearray(library.image())
    struct.pack_into("<Q", image, 64 + 2 * 56 + 40, 2 * PAGE + 0x77)
    rows = segments_of(moved(bytes(image)))
    assert (LOAD, 5, PAGE, 3 * PAGE + SHIFT, 3 * PAGE + 7, 0, 0x77, PAGE) in rows


def test_the_headers_name_themselves() -> None:
    after = check(Library())
    rows, elf = segments_of(after), Elf(after)
    new = max((row for row in rows if row[0] == LOAD), key=lambda row: row[3])
    assert rows[0] == (PHDR, 4, new[2], new[3], new[3], 56 * len(rows), 56 * len(rows), 8)
    assert rows.index(new) == max(i for i, row in enumerate(rows) if row[0] == LOAD)
    assert new[3] % PAGE == new[2] % PAGE == 0 and new[4] == new[3] and new[7] == PAGE
    assert new[3] - (Library().data + DATA_SHIFT + 2 * 16 + 9 + 0x345) < PAGE, "right behind the last one"
    assert elf.view.number("<Q", 40) % 8 == 0
    assert elf.view.number("<Q", 40) + 64 * len(elf.sections) == len(after)


def test_every_row_of_the_sections() -> None:
    library = Library(more_sections=[(0, 1, 2, 0x77, 0x500, 9, 1, 2, 3, 4), (0, 8, 2, 0x77, 0x5080, 9, 1, 2, 3, 4)])
    before, after = library.image(), check(library)
    read = [
        [struct.unpack_from(SECTION, data, place + 64 * i) for i in range(7)]
        for data in (before, after)
        for place in [Elf(data).view.number("<Q", 40)]
    ]
    section = fat_of(Elf(after))
    table = -(-56 * len(segments_of(after)) // 16) * 16
    new = max(memory(after))
    assert read[1][2] == (7, 1, 2, new + table, section.offset, section.size, 3, 5, 16, 7)
    assert section.size == 16 + len(NEW[0x40])
    gone = 2 * PAGE
    assert read[1][:2] == read[0][:2] and read[1][5] == read[0][5]
    for number in (3, 4, 6):
        row = read[0][number]
        assert read[1][number] == (*row[:4], row[4] - gone, *row[5:])


def test_what_is_left_of_the_old_content_is_empty() -> None:
    """At its ends, and all of it where no whole page can go."""
    after = check(Library(before=0x100, size=0x30F8, behind=0x80))
    assert not any(after[PAGE + 0x100 : 2 * PAGE]) and not any(after[2 * PAGE : 2 * PAGE + 0x1F8])
    assert any(after[PAGE : PAGE + 0x100]) and any(after[2 * PAGE + 0x1F8 : 2 * PAGE + 0x278])
    whole = check(Library(before=8, size=0x700))
    assert not any(whole[PAGE + 8 : PAGE + 0x708]) and whole[PAGE + 0x708] == 0x08 | 1


@pytest.mark.parametrize("align", [PAGE, 0x4000, 0x10000, 1 << 21, 1 << 24])
def test_pages_may_be_larger(align: int) -> None:
    library = Library(start=align, shift=0, align=align, size=0x18000)
    image = bytearray(library.image())
    struct.pack_into("<Q", image, 64 + 3 * 56 + 48, PAGE)
    rows = segments_of(moved(bytes(image)))
    new = max((row for row in rows if row[0] == LOAD), key=lambda row: row[3])
    assert new[7] == align and new[2] % align == new[3] % align == 0


@pytest.mark.parametrize("align", [0, 1, 8, 0x800])
def test_pages_are_never_smaller_than_processors_have_them(align: int) -> None:
    rows = segments_of(moved(Library(align=align).image()))
    assert max((row for row in rows if row[0] == LOAD), key=lambda row: row[3])[7] == PAGE


@pytest.mark.parametrize("align", [0x1001, 0x1800, 0x3000, 1 << 25])
def test_alignments_no_system_has(align: int) -> None:
    with pytest.raises(Malformed, match=rf"lib\.so wants its segments aligned to {align}, which no system does"):
        moved(Library(align=align).image())


@pytest.mark.parametrize(("address", "taken"), [((1 << 47) - (1 << 40) - 2 * PAGE, True),
                                                ((1 << 47) - (1 << 40) - PAGE, False)])  # fmt: skip
def test_there_must_be_addresses_left(address: int, taken: bool) -> None:
    image = Library(more_segments=[(LOAD, 4, 0, address, 0, 0x10, PAGE, PAGE)]).image()
    if taken:
        assert max(memory(moved(image))) == address + PAGE
    else:
        with pytest.raises(Malformed, match=r"lib\.so leaves no addresses for one segment more"):
            moved(image)


@pytest.mark.parametrize(
    ("place", "form", "value"), [(54, "<H", 57), (58, "<H", 72), (60, "<H", 4), (32, "<Q", 0), (56, "<H", 0)]
)
def test_tables_of_another_form(place: int, form: str, value: int) -> None:
    """Of five sections and five segments."""
    image = bytearray(Library(trailing=bytes(900)).image())
    section = fat_of(Elf(bytes(image)))
    struct.pack_into(form, image, place, value)
    if place == 60:
        struct.pack_into("<H", image, 60, 0)
        struct.pack_into("<Q", image, Elf(bytes(image)).view.number("<Q", 40) + 0x20, 5)
    with pytest.raises(Malformed, match=r"lib\.so has tables of another form than libraries have"):
        move_section(Elf(bytes(image), "lib.so"), section, [], io.BytesIO())


def test_a_library_that_loads_nothing_or_far_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    assert elf_move.MAX_SEGMENTS == 1000
    monkeypatch.setattr(elf_move, "MAX_SEGMENTS", 5)
    check(Library())
    with pytest.raises(Malformed, match=r"lib\.so has no segment to load"):
        moved(Library(more_segments=[(STACK, 6, 0, 0, 0, 0, 0, 16)]).image())
    image = bytearray(Library().image())
    for number in range(5):
        struct.pack_into("<I", image, 64 + 56 * number, STACK)
    with pytest.raises(Malformed, match="has no segment to load"):
        moved(bytes(image))


@pytest.mark.parametrize("packed", [False, True])
def test_pointers_lead_into_the_section_or_past_it(packed: bool) -> None:
    library = Library(leads=(-1, 0, 0x40, 0x2FFF, 0x3000), packed=packed)
    elf = Elf(library.image())
    low = library.fat + library.shift
    wanted = [
        Pointer(library.data + 16 * number, None if packed else 0x400 + 24 * number + 16, low + lead)
        for number, lead in enumerate(library.leads)
        if 0 <= lead < 0x3000
    ]
    assert list(pointers_into(elf, fat_of(elf))) == wanted
    with pytest.raises(Malformed, match=rf"lib\.so: a pointer leads into the middle of \.fat \({low + 0x2FFF:#x}\)"):
        moved(library.image())


def test_other_relocations_are_none() -> None:
    image = bytearray(Library().image())
    struct.pack_into("<Q", image, 0x408, 7)
    elf = Elf(bytes(image))
    assert [pointer.slot for pointer in pointers_into(elf, fat_of(elf))] == [Library().data + 16]
    struct.pack_into("<H", image, 18, 243)
    other = Elf(bytes(image), "lib.so")
    with pytest.raises(Malformed, match=r"lib\.so is for riscv64; pointers are read for x86_64 and aarch64"):
        pointers_into(other, fat_of(other))


@pytest.mark.parametrize(("back", "taken"), [(8, True), (6, False)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_slot_lies_in_the_file(back: int, taken: bool, packed: bool) -> None:
    image = bytearray(Library(packed=packed).image())
    length = len(image)
    image += struct.pack("<Q", Library().fat + SHIFT)
    struct.pack_into(SEGMENT, image, 64 + 4 * 56, LOAD, 6, length, 0x900000, 0, 8, 8, 1)
    struct.pack_into("<Q", image, 0x400, 0x900008 - back)
    elf = Elf(bytes(image), "lib.so")
    if taken:
        assert length in [pointer.slot for pointer in pointers_into(elf, fat_of(elf))]
    else:
        with pytest.raises(Malformed, match=r"lib\.so: a relocation fills in 0x900002, which is in no segment"):
            pointers_into(elf, fat_of(elf))


def test_parts_of_the_old_file_are_copied() -> None:
    library = Library()
    elf, out = Elf(library.image()), io.BytesIO()
    section = fat_of(elf)
    parts = (b"<", (section.offset + 0x1FF0, 0x2000 - 0x1FF0 + 8), b">")
    assert SectionPiece(0, parts).size == 2 + 24
    pieces = [SectionPiece(section.address, parts), SectionPiece(section.address + 0x40, ())]
    move_section(elf, section, pieces, out)
    after = out.getvalue()
    place = fat_of(Elf(after)).offset
    assert after[place : place + 26] == b"<" + elf.view.take(section.offset + 0x1FF0, 24) + b">"


def test_what_follows_the_sections_table_stays() -> None:
    """Then the old table stays, too: only at the very end nobody can want it."""
    library = Library(trailing=b"an installer's data")
    after = check(library)
    assert after.count(b"an installer's data") == 1
    plain = Library()
    assert after.index(b"an installer's data") == len(plain.image()) - 2 * PAGE
    names = struct.unpack_from(SECTION, plain.image(), len(plain.image()) - 64)
    assert check(plain)[names[4] - 2 * PAGE :].startswith(b"\0.rela\0.fat\0")
