"""A section at a new place: every pointer follows, the old pages leave the file, and what is odd is refused."""

from __future__ import annotations

import io
import itertools
import struct

import pytest

from binaries import make_entry
from gpu_libraries import PAGE, make_cubin, make_gpu_library
from rekindle.formats.elf import PT_LOAD, Elf, Section
from rekindle.formats.elf_move import SectionPiece, move_section, pointers_into
from rekindle.formats.fatbin import read_containers
from rekindle.formats.view import Malformed

TWO = [[make_entry(2, 80, payload=make_cubin())], [make_entry(2, 90, payload=b"x" * 64)]]


def _fat(elf: Elf) -> Section:
    section = elf.section(".nv_fatbin")
    assert section is not None
    return section


def _moved(data: bytes, more: bytes = b"") -> bytes:
    elf = Elf(data)
    section = _fat(elf)
    pieces = [
        SectionPiece(section.address + one.offset - section.offset, ((one.offset, one.size), more))
        for one in read_containers(data, section.offset, section.size)
    ]
    out = io.BytesIO()
    move_section(elf, section, pieces, out)
    return out.getvalue()


def _wrapped(data: bytes) -> list[tuple[int, ...]]:
    """What each wrapper leads to once the loader has been there: the first fields of a container."""
    elf = Elf(data)
    wrappers = elf.section(".nvFatBinSegment")
    assert wrappers is not None
    by_slot = {pointer.slot: pointer.target for pointer in pointers_into(elf, _fat(elf))}
    out = []
    for at in range(wrappers.offset, wrappers.offset + wrappers.size, 24):
        place = elf.offset_of(by_slot[at + 8])
        assert place is not None
        out.append(elf.view.unpack("<IHHQ", place))
    return out


@pytest.mark.parametrize("machine", [62, 183])
@pytest.mark.parametrize("relr", [False, True])
def test_pointers_lead_to_the_same_content(machine: int, relr: bool) -> None:
    before = make_gpu_library(TWO, machine=machine, relr=relr)
    after = _moved(before)
    assert _wrapped(after) == _wrapped(before)
    assert len(_wrapped(after)) == 2 and _wrapped(after)[0][0] == 0xBA55ED50
    section = _fat(Elf(after))
    assert [[e.name for e in c.entries] for c in read_containers(after, section.offset, section.size)] == [
        ["sm_80"],
        ["sm_90"],
    ]


def test_the_slot_and_the_addend_are_set() -> None:
    after = _moved(make_gpu_library(TWO))
    elf = Elf(after)
    for pointer in pointers_into(elf, _fat(elf)):
        assert pointer.addend is not None
        assert elf.view.number("<Q", pointer.slot) == elf.view.number("<Q", pointer.addend) == pointer.target


def test_whole_pages_of_the_old_content_leave_the_file() -> None:
    before = make_gpu_library(TWO, between=40 * PAGE)
    after = _moved(before)
    assert len(after) < len(before) - 35 * PAGE
    elf = Elf(after)
    for name, content in ((".rodata", b"read only"), (".eh_frame", b"frames")):
        section = elf.section(name)
        assert section is not None and after[section.offset :].startswith(content)
        assert elf.offset_of(section.address) == section.offset, "its address is what it was, and is mapped"
        old = Elf(before).section(name)
        assert old is not None and section.address == old.address


def test_segments_are_as_loaders_want_them() -> None:
    after = _moved(make_gpu_library(TWO, between=40 * PAGE))
    rows = [struct.unpack_from("<IIQQQQQQ", after, Elf(after).view.number("<Q", 32) + 56 * i)
            for i in range(Elf(after).view.number("<H", 56))]  # fmt: skip
    loads = [row for row in rows if row[0] == PT_LOAD]
    assert [row[3] for row in loads] == sorted(row[3] for row in loads)
    for first, second in itertools.pairwise(loads):
        assert first[3] + first[6] <= second[3]
    for _, _, offset, address, _, size, memory, align in loads:
        assert offset % align == address % align and size <= memory and offset + size <= len(after)
    assert loads[-1][1] == 4, "read-only"
    phoff = Elf(after).view.number("<Q", 32)
    assert loads[-1][2] == phoff, "the table of segments is mapped"
    assert 0x6474E551 in [row[0] for row in rows], "nothing is dropped: without GNU_STACK the stack could be run"


def test_what_is_left_of_the_old_content_is_zeros() -> None:
    after = _moved(make_gpu_library(TWO, between=0))
    section = Elf(after).section(".rodata")
    assert section is not None
    assert not any(after[section.offset + section.size : section.offset + section.size + 200])


def test_content_grows() -> None:
    after = _moved(make_gpu_library(TWO), more=b"new!" * 1000)
    section = _fat(Elf(after))
    assert after[section.offset : section.offset + section.size].count(b"new!") == 2000


def test_it_can_be_moved_again() -> None:
    once = _moved(make_gpu_library(TWO, between=8 * PAGE))
    assert _wrapped(_moved(once)) == _wrapped(once)


def test_a_pointer_into_the_middle_is_refused() -> None:
    with pytest.raises(Malformed, match="into the middle"):
        _moved(make_gpu_library(TWO, pointers=[0, 24]))


@pytest.mark.parametrize(("at", "form", "value"), [
    (54, "<H", 60), (58, "<H", 65), (60, "<H", 0), (32, "<Q", 1 << 40), (40, "<Q", 1 << 40), (18, "<H", 243),
    (64 + 48, "<Q", 3), (64 + 48, "<Q", 1 << 40),
])  # fmt: skip
def test_tables_that_lie_are_refused(at: int, form: str, value: int) -> None:
    data = bytearray(make_gpu_library(TWO))
    good = Elf(bytes(data))
    section = _fat(good)
    struct.pack_into(form, data, at, value)
    with pytest.raises(Malformed):
        move_section(Elf(bytes(data)), section, [], io.BytesIO())


def test_a_relocation_outside_the_file_is_refused() -> None:
    data = bytearray(make_gpu_library(TWO))
    struct.pack_into("<Q", data, 0x200, 1 << 40)
    with pytest.raises(Malformed, match="in no segment"):
        _moved(bytes(data))
