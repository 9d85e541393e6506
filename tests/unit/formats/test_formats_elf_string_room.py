"""A text exchanged at the edges: the room that is just large enough, whose zeros they are, how far code can reach."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from rekindle.formats.elf import Elf
from rekindle.formats.elf_string import ByteEdit, replace_text

OLD, NEW = b"sm_75 sm_80", b"sm_75 sm_80 sm_90"
ROOM = len(NEW) + 1
LOAD, NOTE = 1, 4
READ, RUN, READ_WRITE = 4, 5, 6
# The text's segment ends with its text; in memory it lies elsewhere than in the file, as does the code.
TEXT, TEXT_AT, TEXT_SIZE = 0x1000, 0x51000, 0x20
PLACE = TEXT + TEXT_SIZE
TARGET = TEXT_AT + TEXT_SIZE
CODE, CODE_AT, CODE_SIZE = 0x2000, 0x72000, 0x100
OFFSET, ADDRESS = TEXT + 8, TEXT_AT + 8
PHYSICAL = 0x33
Row = tuple[int, int, int, int, int, int]


def load(
    offset: int, address: int, size: int, *, flags: int = READ, memory: int | None = None, kind: int = LOAD
) -> Row:
    return kind, flags, offset, address, size, size if memory is None else memory


TEXT_LOAD = load(TEXT, TEXT_AT, TEXT_SIZE)
CODE_LOAD = load(CODE, CODE_AT, 0x1000, flags=RUN)
CODE_SECTION = (1, 6, CODE_AT, CODE, CODE_SIZE)


def library(
    code: bytes,
    *,
    machine: int = 62,
    loads: Sequence[Row] = (TEXT_LOAD, CODE_LOAD),
    sections: Sequence[tuple[int, int, int, int, int]] = (CODE_SECTION,),
    contents: Mapping[int, bytes] | None = None,
    tables: tuple[int, int] = (0x100, 0x400),
    end: int = 0x4000,
) -> bytes:
    """``sections`` are (kind, flags, address, offset, size), all without names; ``tables``: where the segments' and the
    sections' headers lie; ``contents`` are further bytes by their offset."""
    image = bytearray(end)
    rows = [(0, 0, 0, 0, 0), *sections, (3, 0, 0, 0x800, 1)]
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 3, machine, 1, 0, *tables, 0, 64, 56, len(loads), 64, len(rows), len(rows) - 1
    )
    image[:64] = head
    image[OFFSET : OFFSET + len(OLD)] = OLD
    image[CODE : CODE + len(code)] = code
    for i, (kind, flags, offset, address, size, memory) in enumerate(loads):
        row = struct.pack("<IIQQQQQQ", kind, flags, offset, address, PHYSICAL, size, memory, 0x1000)
        image[tables[0] + 56 * i : tables[0] + 56 * i + 56] = row
    for i, (kind, flags, address, offset, size) in enumerate(rows):
        row = struct.pack("<IIQQQQIIQQ", 0, kind, flags, address, offset, size, 0, 0, 1, 0)
        image[tables[1] + 64 * i : tables[1] + 64 * i + 64] = row
    for at, content in (contents or {}).items():
        image[at : at + len(content)] = content
    return bytes(image)


def replaced(data: bytes, offset: int = OFFSET) -> tuple[ByteEdit, ...] | None:
    return replace_text(Elf(data), offset, OLD, NEW)


def lea(before: int, where: int = ADDRESS, *, at: int = CODE_AT, begin: bytes = b"\x48\x8d\x3d") -> bytes:
    """``before`` bytes of nothing, then what leads to the address."""
    return b"\x90" * before + begin + struct.pack("<i", where - (at + before + 7))


def grown(row: Row, number: int = 0, table: int = 0x100) -> ByteEdit:
    """The segment's header with the new text in it."""
    kind, flags, offset, address, size, memory = row
    sizes = (size + ROOM, memory + ROOM)
    return ByteEdit(
        table + 56 * number, struct.pack("<IIQQQQQQ", kind, flags, offset, address, PHYSICAL, *sizes, 0x1000)
    )


def led(before: int, target: int = TARGET) -> ByteEdit:
    """The distance that :func:`lea` gets."""
    return ByteEdit(CODE + before + 3, struct.pack("<i", target - (CODE_AT + before + 7)))


TEXT_EDIT = ByteEdit(PLACE, NEW + b"\0")


@pytest.mark.parametrize("before", [0, 1, 2, 3, 4, 5, 30, CODE_SIZE - 7])
@pytest.mark.parametrize("begin", [b"\x48\x8d\x05", b"\x48\x8d\x3d", b"\x4c\x8d\x0d", b"\x4c\x8d\x3d"])
def test_every_edit_of_a_lea(before: int, begin: bytes) -> None:
    assert replaced(library(lea(before, begin=begin))) == (TEXT_EDIT, grown(TEXT_LOAD), led(before))


@pytest.mark.parametrize("begin", [b"\x48\x8d\x04", b"\x48\x8d\x06", b"\x48\x8d\x45", b"\x48\x8d\x85", b"\x48\x8d\xc5",
                                   b"\x49\x8d\x05", b"\x48\x8b\x05", b"\x40\x8d\x05", b"\x90\xff\x25"])  # fmt: skip
def test_what_else_reaches_the_text_leaves_it_alone(begin: bytes) -> None:
    assert replaced(library(lea(9, begin=begin))) is None
    assert replaced(library(lea(9) + lea(0, at=CODE_AT + 16, begin=begin))) is None


def test_a_distance_without_room_for_its_instruction_is_none() -> None:
    for before in range(3):
        code = b"\x90" * before + struct.pack("<i", ADDRESS - (CODE_AT + before + 4))
        assert replaced(library(code)) is None


def test_code_is_what_the_file_holds_and_the_processor_runs() -> None:
    """A second lea counts in a section that runs, not among data or in what has no bytes in the file."""
    one, other = lea(0), lea(0, at=CODE_AT + 0x400)
    for kind, flags, alone in ((1, 6, False), (1, 2, True), (1, 3, True), (8, 6, True)):
        second = (kind, flags, CODE_AT + 0x400, CODE + 0x400, 0x40)
        data = library(one, sections=(CODE_SECTION, second), contents={CODE + 0x400: other})
        assert (replaced(data) is not None) == alone
    data = library(
        b"", sections=(CODE_SECTION, (1, 6, CODE_AT + 0x400, CODE + 0x400, 7)), contents={CODE + 0x400: other}
    )
    assert replaced(data) == (TEXT_EDIT, grown(TEXT_LOAD), led(0x400))


@pytest.mark.parametrize("size", range(7))
def test_what_lies_behind_a_section_is_no_code(size: int) -> None:
    """Neither a distance nor the end of an instruction."""
    for content in (lea(0, at=CODE_AT + 0x400), struct.pack("<i", ADDRESS - (CODE_AT + 0x404))):
        second = (1, 6, CODE_AT + 0x400, CODE + 0x400, min(size, len(content) - 1))
        data = library(lea(0), sections=(CODE_SECTION, second), contents={CODE + 0x400: content})
        assert replaced(data) is not None


def test_a_text_that_is_not_mapped_stays() -> None:
    assert replaced(library(lea(0)), offset=0x3800) is None
    assert replaced(library(lea(0)), offset=OFFSET + 1) is None, "nothing leads there"


@pytest.mark.parametrize(("spare", "taken"), [(ROOM + 1, True), (ROOM, True), (ROOM - 1, False), (0, False)])
def test_the_room_ends_with_the_page(spare: int, taken: bool) -> None:
    row = load(TEXT, TEXT_AT, 0x1000 - spare)
    answer = replaced(library(lea(0), loads=(row, CODE_LOAD)))
    place = ByteEdit(TEXT + 0x1000 - spare, NEW + b"\0")
    assert answer == ((place, grown(row), led(0, TEXT_AT + 0x1000 - spare)) if taken else None)


@pytest.mark.parametrize(("gap", "taken"), [(ROOM + 1, True), (ROOM, True), (ROOM - 1, False), (0, False)])
def test_the_room_ends_where_the_next_segment_is_mapped(gap: int, taken: bool) -> None:
    above = load(0x3000, TARGET + gap, 0x10, flags=READ_WRITE)
    assert (replaced(library(lea(0), loads=(TEXT_LOAD, CODE_LOAD, above))) is not None) == taken
    note = load(0x3000, TARGET + gap, 0x10, kind=NOTE)
    assert replaced(library(lea(0), loads=(TEXT_LOAD, CODE_LOAD, note))) is not None, "a note maps nothing"


@pytest.mark.parametrize(("at", "taken"), [(-1, True), (0, False), (1, False), (ROOM - 1, False), (ROOM, True)])
def test_the_room_is_zeros(at: int, taken: bool) -> None:
    assert (replaced(library(lea(0), contents={PLACE + at: b"\1"})) is not None) == taken


@pytest.mark.parametrize(("more", "taken"), [(0, True), (-1, False)])
def test_the_room_lies_in_the_file(more: int, taken: bool) -> None:
    """The code stands before the text here, the text at the end."""
    text, code = load(TEXT, TEXT_AT, TEXT_SIZE), load(0xC00, CODE_AT, 0x400, flags=RUN)
    section = (1, 6, CODE_AT, 0xC00, 0x40)
    end = PLACE + ROOM + more
    data = library(b"", loads=(text, code), sections=(section,), contents={0xC00: lea(0)}, end=CODE)[:end]
    assert (replaced(data) is not None) == taken


@pytest.mark.parametrize(
    ("at", "size", "taken"),
    [(PLACE - 8, 8, True), (PLACE - 8, 9, False), (PLACE + ROOM, 4, True), (PLACE + ROOM - 1, 4, False),
     (PLACE - 8, 0x200, False), (PLACE + 2, 1, False)],
)  # fmt: skip
def test_zeros_that_belong_to_somebody_are_left(at: int, size: int, taken: bool) -> None:
    for kind in (1, 7, 8, 0):
        data = library(lea(0), sections=(CODE_SECTION, (kind, 2, TEXT_AT, at, size)))
        assert (replaced(data) is not None) == (taken or kind in (8, 0)), "some sections have no bytes in the file"
    segment = load(at, 0x90000, size, kind=NOTE, memory=0 if size > 1 else 0x400)
    assert (replaced(library(lea(0), loads=(TEXT_LOAD, CODE_LOAD, segment))) is not None) == taken


def test_segments_without_bytes_and_twins_take_no_room() -> None:
    stack, twin = load(PLACE + 3, 0, 0, memory=1, kind=0x6474E551), load(TEXT, TEXT_AT, TEXT_SIZE, kind=0x6474E552)
    assert replaced(library(lea(0), loads=(stack, TEXT_LOAD, CODE_LOAD, twin))) == (
        TEXT_EDIT,
        grown(TEXT_LOAD, 1),
        led(0),
    )


@pytest.mark.parametrize(("segments", "sections"), [(PLACE - 112, 0x400), (0x100, PLACE - 192)])
def test_the_headers_may_end_where_the_room_begins(segments: int, sections: int) -> None:
    row = load(TEXT + 0x400, TEXT_AT, 0x400)
    place, target = TEXT + 0x800, TEXT_AT + 0x400
    moved = tuple(at + place - PLACE if at > TEXT - 0x400 else at for at in (segments, sections))
    contents = {TEXT + 0x400 + 8: OLD}
    for more, taken in ((0, True), (1, False)):
        tables = (moved[0] + more * (segments > 0x400), moved[1] + more * (sections > 0x400))
        data = library(lea(0), loads=(row, CODE_LOAD), contents=contents, tables=tables)
        answer = replaced(data, TEXT + 0x400 + 8)
        want = (ByteEdit(place, NEW + b"\0"), grown(row, 0, tables[0]), led(0, target))
        # With one byte more they hold what is not zero there, or a zero that is theirs.
        assert answer == (want if taken else None)


@pytest.mark.parametrize(("more", "taken"), [(0, True), (-1, False)])
@pytest.mark.parametrize("which", [0, 1])
def test_the_headers_may_begin_where_the_room_ends(which: int, more: int, taken: bool) -> None:
    """The first section's row is zeros, and yet it is the table's."""
    tables = (PLACE + ROOM + more, 0x400) if which == 0 else (0x100, PLACE + ROOM + more)
    assert (replaced(library(lea(0), tables=tables)) is not None) == taken


SECOND = load(0x3000, 0x93000, 0x10)


@pytest.mark.parametrize(
    "first",
    [
        load(TEXT, TEXT_AT, TEXT_SIZE, flags=READ_WRITE),
        load(TEXT, TEXT_AT, TEXT_SIZE, flags=2),
        load(TEXT, TEXT_AT, TEXT_SIZE, memory=TEXT_SIZE + 1),
        load(TEXT, TEXT_AT, TEXT_SIZE, memory=TEXT_SIZE + 0x100),
    ],
    ids=["can be written", "nothing but that", "more in memory", "far more in memory"],
)
def test_the_next_segment_may_have_room(first: Row) -> None:
    code = load(CODE, CODE_AT, 0x1000, flags=RUN)
    edits = (ByteEdit(0x3010, NEW + b"\0"), grown(SECOND, 2), led(0, 0x93010))
    assert replaced(library(lea(0), loads=(first, code, SECOND))) == edits
    assert replaced(library(lea(0), loads=(first, code))) is None


def test_a_segment_without_content_has_no_room() -> None:
    empty = load(0x3000, 0x93000, 0)
    assert replaced(library(lea(0), loads=(empty, CODE_LOAD, TEXT_LOAD))) == (TEXT_EDIT, grown(TEXT_LOAD, 2), led(0))
    note = load(0x3000, 0x93000, 0x10, kind=NOTE)
    assert replaced(library(lea(0), loads=(note, CODE_LOAD, TEXT_LOAD))) == (TEXT_EDIT, grown(TEXT_LOAD, 2), led(0))


def test_code_has_room_behind_it_too() -> None:
    full = load(TEXT, TEXT_AT, 0x1000)
    code = load(CODE, CODE_AT, CODE_SIZE, flags=RUN)
    edits = (ByteEdit(CODE + CODE_SIZE, NEW + b"\0"), grown(code, 1), led(0, CODE_AT + CODE_SIZE))
    assert replaced(library(lea(0), loads=(full, code))) == edits


@pytest.mark.parametrize("side", [-1, 1])
def test_a_distance_has_31_bits(side: int) -> None:
    """The text can be reached, the room only just, or no more."""
    here = CODE_AT + (1 << 33) + 0x800
    for over in (0, 1):
        target = here + 7 + side * ((1 << 31) - 1 + over)
        full = load(TEXT, here - 0x21000, 0x1000)
        code = load(CODE, here, 0x1000, flags=RUN)
        # Its first bytes are its own, so the segment begins before what the code has to reach.
        begin = target - 0x10
        row = load(0x3000, begin, 0x10)
        data = library(lea(0, full[3] + 8, at=here), loads=(full, code, row), sections=((1, 6, here, CODE, CODE_SIZE),))
        wanted = ByteEdit(CODE + 3, struct.pack("<i", side * ((1 << 31) - 1)))
        assert replaced(data) == ((ByteEdit(0x3010, NEW + b"\0"), grown(row, 2), wanted) if not over else None)


NUMBER = struct.pack("<I", len(OLD))


@pytest.mark.parametrize(
    ("distance", "taken"), [(-25, True), (-24, False), (-8, False), (6, False), (20, False), (21, True)]
)
def test_a_length_near_the_instruction_stops_it(distance: int, taken: bool) -> None:
    """Distances are from what is changed in the instruction."""
    data = library(lea(40), contents={CODE + 43 + distance: NUMBER})
    assert (replaced(data) is not None) == taken
    other = library(lea(40), contents={CODE + 43 + distance: struct.pack("<I", len(OLD) + 1)})
    assert replaced(other) is not None


def test_code_at_the_very_end_of_the_file() -> None:
    data = library(lea(CODE_SIZE - 7), end=CODE + CODE_SIZE, loads=(TEXT_LOAD, load(CODE, CODE_AT, 0x100, flags=RUN)))
    assert replaced(data) == (TEXT_EDIT, grown(TEXT_LOAD), led(CODE_SIZE - 7))


# AArch64


def adrp(register: int, pages: int) -> int:
    return 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5 | register


def add(low: int, source: int, into: int = 0, begin: int = 0x91000000) -> int:
    return begin | low << 10 | source << 5 | into


def words(*code: int) -> bytes:
    return struct.pack(f"<{len(code)}I", *code)


NOTHING = 0xD503201F
PAGES = (TEXT_AT >> 12) - (CODE_AT >> 12)


def arm(*code: int, **more: object) -> bytes:
    return library(words(*code), machine=183, **more)  # type: ignore[arg-type]


def arm_edits(first: int, second: int, register: int, pages: int, low: int, into: int) -> tuple[ByteEdit, ...]:
    return (
        ByteEdit(CODE + 4 * first, words(adrp(register, pages))),
        ByteEdit(CODE + 4 * second, words(add(low, register, into))),
    )


@pytest.mark.parametrize(("register", "into"), [(0, 0), (1, 0), (9, 9), (30, 17), (16, 31)])
@pytest.mark.parametrize("between", [0, 1, 7])
@pytest.mark.parametrize("before", [0, 3])
def test_every_edit_of_a_pair(register: int, into: int, between: int, before: int) -> None:
    quiet = [NOTHING] * between
    data = arm(*[NOTHING] * before, adrp(register, PAGES), *quiet, add(ADDRESS & 0xFFF, register, into))
    pair = arm_edits(before, before + between + 1, register, PAGES, TARGET & 0xFFF, into)
    assert replaced(data) == (TEXT_EDIT, grown(TEXT_LOAD), *pair)


LOW = ADDRESS & 0xFFF


@pytest.mark.parametrize(
    "code",
    [
        (adrp(3, PAGES), *[NOTHING] * 8, add(LOW, 3)),
        (adrp(3, PAGES), add(LOW, 4)),
        (adrp(3, PAGES), add(LOW + 1, 3)),
        (adrp(3, PAGES), add(LOW, 3, begin=0x91400000)),
        (adrp(3, PAGES), add(LOW, 3, begin=0xD1000000)),
        (adrp(3, PAGES), add(LOW, 3, begin=0x11000000)),
        (adrp(3, PAGES + 1), add(LOW, 3)),
        (adrp(3, PAGES) & ~0x80000000, add(LOW, 3)),
        (add(LOW, 3), adrp(3, PAGES)),
        (adrp(3, PAGES), add(LOW, 3), adrp(4, PAGES), NOTHING, add(LOW, 4)),
        (adrp(3, PAGES),),
        (),
    ],
    ids=["too far apart", "another register", "another text", "shifted", "subtracted", "32 bits", "another page",
         "adr", "the wrong way round", "two pairs", "half a pair", "none"],
)  # fmt: skip
def test_no_pair_leads_there_for_certain(code: tuple[int, ...]) -> None:
    assert replaced(arm(*code)) is None


@pytest.mark.parametrize("before", [0x3F0, 0x3FE, 0x3FF, 0x400, 0x410])
def test_a_page_is_counted_from_the_instruction(before: int) -> None:
    pages = PAGES - (before >> 10)
    section = (1, 6, CODE_AT, CODE, 0x1800)
    data = arm(*[NOTHING] * before, adrp(3, pages), add(LOW, 3), sections=(section,))
    pair = arm_edits(before, before + 1, 3, pages, TARGET & 0xFFF, 0)
    assert replaced(data) == (TEXT_EDIT, grown(TEXT_LOAD), *pair)


@pytest.mark.parametrize("more", range(5))
def test_a_file_may_end_within_a_word(more: int) -> None:
    code, size = words(NOTHING, adrp(3, PAGES), add(LOW, 3)) + b"\0\0\0\0"[:more], 12 + more
    rows = (TEXT_LOAD, load(CODE, CODE_AT, size, flags=RUN))
    data = library(code, machine=183, loads=rows, sections=((1, 6, CODE_AT, CODE, size),), end=CODE + size)
    assert replaced(data) == (TEXT_EDIT, grown(TEXT_LOAD), *arm_edits(1, 2, 3, PAGES, TARGET & 0xFFF, 0))


def test_neighbours_of_the_text_are_no_second_pair() -> None:
    data = arm(adrp(3, PAGES), add(LOW + 4, 3), add(LOW, 3, 5), adrp(4, PAGES), add(LOW + 8, 4))
    assert replaced(data) == (TEXT_EDIT, grown(TEXT_LOAD), *arm_edits(0, 2, 3, PAGES, TARGET & 0xFFF, 5))


def test_the_last_instruction_may_be_half_of_the_pair() -> None:
    code = words(adrp(3, PAGES), add(LOW, 3))
    for size, taken in ((8, True), (11, True), (7, False), (4, False)):
        data = library(code, machine=183, sections=((1, 6, CODE_AT, CODE, size),))
        assert (replaced(data) is not None) == taken


@pytest.mark.parametrize("pages", [-(1 << 20), (1 << 20) - 1, -(1 << 20) - 1, 1 << 20, 5, -1, 0])
def test_a_page_has_21_bits(pages: int) -> None:
    here = CODE_AT + (1 << 33)
    full = load(TEXT, here - 0x3000, 0x1000)
    code = load(CODE, here, 0xC00, flags=RUN)
    row = load(0x3000, here + (pages << 12) + 0xC80, 0x10)
    data = library(words(NOTHING, adrp(3, -3), add(8, 3)), machine=183, loads=(full, row, code),
                   sections=((1, 6, here, CODE, CODE_SIZE),))  # fmt: skip
    if -(1 << 20) <= pages < 1 << 20:
        edits = (ByteEdit(0x3010, NEW + b"\0"), grown(row, 1), *arm_edits(1, 2, 3, pages, 0xC90, 0))
        assert replaced(data) == edits
    else:
        assert replaced(data) is None


@pytest.mark.parametrize(
    ("begin", "taken"), [(0x52800000, False), (0xD2800000, False), (0x12800000, True), (0x72800000, True)]
)
@pytest.mark.parametrize(("place", "near"), [(-7, False), (-6, True), (-1, True), (2, True), (5, True), (6, False)])
def test_a_length_in_a_register_stops_it(begin: int, taken: bool, place: int, near: bool) -> None:
    code = [NOTHING] * 20
    code[8:10] = [adrp(3, PAGES), add(LOW, 3)]
    code[8 + place] = begin | len(OLD) << 5 | 1
    assert (replaced(arm(*code)) is not None) == (taken or not near)
    code[8 + place] = begin | (len(OLD) + 1) << 5 | 1
    assert replaced(arm(*code)) is not None
