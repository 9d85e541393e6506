"""ELF headers, tables and tags made by hand: addresses differ from offsets, each bound is met from both sides."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from binaries import make_elf
from rekindle.formats import elf as elves
from rekindle.formats.elf import Elf, Need, Section, Segment, is_elf
from rekindle.formats.view import Malformed

BASE = 0x10000
STRINGS, DYNAMIC, NEEDS, SIZE = 0x100, 0x200, 0x400, 0x800
TEXT = b"\0liba.so\0libb.so\0me.so\0/a:/b::/c\0V_1\0V_2\0V_3\0"
AT = {word: TEXT.index(word.encode() + b"\0") for word in TEXT[1:-1].decode().split("\0")}


def header(**fields: int) -> bytes:
    known = {"type": 3, "machine": 62, "phoff": 64, "shoff": 0, "phentsize": 56, "phnum": 2, "shentsize": 64,
             "shnum": 0, "shstrndx": 0}  # fmt: skip
    f = {**known, **fields}
    return (b"\x7fELF\x02\x01\x01" + b"\0" * 9) + struct.pack(
        "<HHIQQQIHHHHHH", f["type"], f["machine"], 1, 0, f["phoff"], f["shoff"], 0, 64,
        f["phentsize"], f["phnum"], f["shentsize"], f["shnum"], f["shstrndx"],
    )  # fmt: skip


def segment(kind: int, offset: int, address: int, size: int, flags: int = 5) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, offset, address, 0x77, size, size + 9, 4096)


def library(
    tags: Sequence[tuple[int, int]], needs: bytes = b"", *, size: int = SIZE, dynamic: int | None = None
) -> bytes:
    """Strings, dynamic section and version needs where the names above say; mapped at BASE more."""
    out = bytearray(size)
    out[:64] = header()
    rows = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    out[64:176] = segment(1, 0, BASE, SIZE) + segment(
        2, DYNAMIC, BASE + DYNAMIC, len(rows) if dynamic is None else dynamic
    )
    out[STRINGS : STRINGS + len(TEXT)] = TEXT
    out[DYNAMIC : DYNAMIC + len(rows)] = rows
    out[NEEDS : NEEDS + len(needs)] = needs
    return bytes(out)


TABLE = [(5, BASE + STRINGS), (10, len(TEXT))]


@pytest.mark.parametrize(
    ("number", "name"),
    [(62, "x86_64"), (183, "aarch64"), (3, "x86"), (40, "arm"), (21, "ppc64le"), (243, "riscv64"), (190, "cuda"),
     (224, "amdgpu"), (63, "machine 63"), (4, "machine 4")],
)  # fmt: skip
def test_machines(number: int, name: str) -> None:
    elf = Elf(header(machine=number, type=2))
    assert (elf.machine, elf.type) == (name, 2)


def test_only_64_bit_little_endian() -> None:
    good = header()
    assert is_elf(b"\x7fELF")
    assert not is_elf(b"\x7fELG")
    assert not is_elf(b"\x7fEL")
    for at, value, word in ((3, 0x45, "no ELF"), (4, 1, "another kind"), (5, 2, "another kind"), (4, 3, "another")):
        broken = bytearray(good)
        broken[at] = value
        with pytest.raises(Malformed, match=word):
            Elf(bytes(broken))
    with pytest.raises(Malformed):
        Elf(good[:63])
    with pytest.raises(Malformed):
        Elf(good[:15])


def test_tags_of_the_dynamic_section() -> None:
    named = {1: "NEEDED", 5: "STRTAB", 6: "SYMTAB", 10: "STRSZ", 14: "SONAME", 15: "RPATH", 29: "RUNPATH"}
    named |= {0x6FFFFFFC: "VERDEF", 0x6FFFFFFE: "VERNEED", 0x6FFFFFFF: "VERNEEDNUM", 23: "JMPREL", 2: "PLTRELSZ"}
    elf = Elf(library([(tag, tag * 3) for tag in named] + [(0, 0), (7, 7)]))
    assert {name: elf.tag(name) for name in named.values()} == {name: tag * 3 for tag, name in named.items()}
    assert elf.dynamic == tuple((tag, tag * 3) for tag in named)
    assert Elf(library([])).tag("NEEDED") is None
    assert Elf(library([(1, 5), (1, 6)])).tag("NEEDED") == 5
    assert Elf(library([(30, 0), (1, 5)])).dynamic == ((30, 0), (1, 5)), "a value of zero ends nothing"


def test_names_in_the_dynamic_section() -> None:
    tags = [*TABLE, (1, AT["liba.so"]), (1, AT["libb.so"]), (14, AT["me.so"]), (15, AT["/a:/b::/c"])]
    elf = Elf(library(tags))
    assert elf.needed == ("liba.so", "libb.so")
    assert elf.soname == "me.so"
    assert elf.rpath == ("/a", "/b", "/c")
    assert Elf(library([*tags, (29, AT["V_1"])])).rpath == ("V_1",)
    bare = Elf(library(TABLE))
    assert (bare.needed, bare.soname, bare.rpath, bare.version_needs) == ((), None, (), ())


def test_the_string_table_must_be_mapped_and_inside() -> None:
    for table in ([(5, STRINGS), (10, 4)], [(5, BASE + STRINGS), (10, SIZE - STRINGS + 1)], [(5, BASE - 1), (10, 1)]):
        with pytest.raises(Malformed, match="string table lies outside"):
            _ = Elf(library([*table, (1, 1)])).needed
    assert Elf(library([(5, BASE + STRINGS), (10, SIZE - STRINGS), (1, 1)])).needed == ("liba.so",)
    for half in ([(5, BASE + STRINGS)], [(10, len(TEXT))], []):
        with pytest.raises(Malformed, match="outside its table"):
            _ = Elf(library([*half, (1, 1)])).needed
    with pytest.raises(Malformed, match="outside its table"):
        _ = Elf(library([(5, BASE + STRINGS), (10, 9), (1, 9)])).needed
    assert Elf(library([(5, BASE + STRINGS), (10, 9), (1, 8)])).needed == ("",)
    with pytest.raises(Malformed, match="never ends"):
        _ = Elf(library([(5, BASE + STRINGS), (10, 8), (1, 1)])).needed


def test_addresses_and_offsets() -> None:
    elf = Elf(library([]))
    assert [elf.offset_of(BASE + at) for at in (0, 5, SIZE - 1)] == [0, 5, SIZE - 1]
    assert [elf.offset_of(at) for at in (BASE - 1, BASE + SIZE, 0)] == [None] * 3
    assert [elf.address_of(at) for at in (0, 5, SIZE - 1, SIZE)] == [BASE, BASE + 5, BASE + SIZE - 1, None]
    assert elf.segments == (
        Segment(1, 5, 0, BASE, SIZE),
        Segment(2, 5, DYNAMIC, BASE + DYNAMIC, 0),
    )
    moved = bytearray(library([]))
    moved[64:120] = segment(1, 0x50, BASE, 0x20)
    assert [Elf(bytes(moved)).offset_of(BASE + at) for at in (0, 0x1F, 0x20)] == [0x50, 0x6F, None]
    assert [Elf(bytes(moved)).address_of(at) for at in (0x4F, 0x50, 0x6F, 0x70)] == [None, BASE, BASE + 0x1F, None]
    moved[64:120] = segment(7, 0x50, BASE, 0x20)
    assert Elf(bytes(moved)).offset_of(BASE) is Elf(bytes(moved)).address_of(0x50) is None


def test_program_headers_have_bounds() -> None:
    assert Elf(header(phoff=0, phnum=9)).segments == Elf(header(phnum=0)).segments == ()
    assert len(Elf(header(phnum=1) + b"\0" * 56).segments) == 1
    for data in (
        header(phnum=1) + b"\0" * 55,
        header(phnum=1, phentsize=55) + b"\0" * 99,
        header(phnum=2) + bytes(111),
    ):
        with pytest.raises(Malformed, match=r"claims \d program headers at offset 64"):
            _ = Elf(data).segments
    wide = header(phnum=2, phentsize=60) + segment(1, 1, 2, 3) + b"zzzz" + segment(1, 4, 5, 6) + b"zzzz"
    assert [s.offset for s in Elf(wide).segments] == [1, 4]
    for address, size, taken in (
        ((1 << 57) - 1, 0, True), (1 << 57, 0, False), (0, (1 << 57) - 1, True), (0, 1 << 57, False)
    ):  # fmt: skip
        data = header(phnum=1) + segment(1, 0, address, size)
        if taken:
            assert Elf(data).segments[0].file_size == size
        else:
            with pytest.raises(Malformed, match="beyond any address"):
                _ = Elf(data).segments


def test_the_dynamic_section_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = [(1, 1), (2, 2), (3, 3)]
    assert Elf(library(tags, dynamic=47)).dynamic == ((1, 1), (2, 2))
    assert Elf(library(tags, dynamic=SIZE - DYNAMIC)).dynamic == tuple(tags)
    with pytest.raises(Malformed, match="dynamic section lies outside"):
        _ = Elf(library(tags, dynamic=SIZE - DYNAMIC + 1)).dynamic
    assert Elf(header(phnum=0)).dynamic == ()
    assert elves.MAX_ENTRIES == 1024 * 1024
    monkeypatch.setattr(elves, "MAX_ENTRIES", 2)
    assert Elf(library(tags)).dynamic == ((1, 1), (2, 2))


def verneed(file: str, names: Sequence[str], following: int, *, count: int | None = None, gap: int = 16) -> bytes:
    out = struct.pack("<HHIII", 1, len(names) if count is None else count, AT[file], gap, following)
    out = out.ljust(gap, b"\1")
    for i, name in enumerate(names):
        out += struct.pack("<IHHII", 0xAAAA, 0xBB, 0xCC, AT[name], 20 if i + 1 < len(names) else 0) + b"pad."
    return out


def needs_of(raw: bytes, count: int, at: int = BASE + NEEDS) -> tuple[Need, ...]:
    return Elf(library([*TABLE, (0x6FFFFFFE, at), (0x6FFFFFFF, count)], raw)).version_needs


def test_version_needs() -> None:
    first = verneed("liba.so", ["V_1", "V_2"], 16 + 40, gap=16)
    second = verneed("libb.so", ["V_3"], 0, gap=24)
    a, b = Need("liba.so", ("V_1", "V_2")), Need("libb.so", ("V_3",))
    assert needs_of(first + second, 2) == (a, b)
    assert needs_of(first + second, 1) == (a,)
    assert needs_of(second + first, 5) == (b,)
    assert needs_of(first, 0) == ()
    assert needs_of(verneed("liba.so", ["V_1"], 0, count=9), 1) == (Need("liba.so", ("V_1",)),)
    assert needs_of(verneed("liba.so", ["V_1", "V_2"], 0, count=1), 1) == (Need("liba.so", ("V_1",)),)
    assert needs_of(verneed("liba.so", [], 0), 1) == (Need("liba.so", ()),)
    for outside in (NEEDS, BASE + SIZE):
        with pytest.raises(Malformed, match="version needs lie outside"):
            needs_of(first, 1, outside)
    assert Elf(library([*TABLE, (0x6FFFFFFF, 1)])).version_needs == ()


def test_no_more_version_needs_than_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = verneed("liba.so", ["V_1"], 36) * 3
    monkeypatch.setattr(elves, "MAX_ENTRIES", 2)
    elf = Elf(library([(0x6FFFFFFE, BASE + NEEDS), (0x6FFFFFFF, 3)], raw))
    elf.__dict__["dynamic"] = (*TABLE, (0x6FFFFFFE, BASE + NEEDS), (0x6FFFFFFF, 3))
    assert len(elf.version_needs) == 2


# Sections


def row(name: int = 0, kind: int = 1, address: int = 0, offset: int = 0, size: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", name, kind, 6, address, offset, size, 11, 12, 13, 14)


NAMES = b"\0.text\0.data\0"


def sectioned(*rows: bytes, after: bytes = b"", names: bytes = NAMES, **fields: int) -> Elf:
    """The names come right behind the header and are section 0 here unless told otherwise."""
    start = 64 + len(names)
    known = {"shoff": start, "shnum": len(rows), "shstrndx": 0, "phnum": 0, **fields}
    return Elf(header(**known) + names + b"".join(rows) + after, "lib.so")


STRTAB = row(0, 3, 0, 64, len(NAMES))


def test_every_field_of_a_section() -> None:
    elf = sectioned(STRTAB, row(1, 1, 0x500, 64, 3), row(7, 8, 1, 2, 3))
    assert elf.sections[1] == Section(".text", 1, 6, 0x500, 64, 3, 11)
    assert [s.name for s in elf.sections] == ["", ".text", ".data"]
    assert elf.section(".data") == elf.sections[2]
    assert elf.section(".none") is None
    assert elf.content(elf.sections[1]) == (64, 3)
    assert elf.content(elf.sections[2]) == (2, 0)


def test_a_sections_bytes_must_lie_inside() -> None:
    length = 64 + len(NAMES) + 128
    elf = sectioned(STRTAB, row(1, 1, 0, 64, length - 64))
    assert elf.content(elf.sections[1]) == (64, length - 64)
    elf = sectioned(STRTAB, row(1, 1, 0, 64, length - 63))
    with pytest.raises(Malformed, match=r"section \.text lies outside"):
        elf.content(elf.sections[1])


def test_no_sections() -> None:
    assert Elf(header(shnum=5)).sections == ()
    assert sectioned(row(size=0), shnum=0).sections == ()


def test_section_headers_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Malformed, match="section headers of 63 bytes"):
        _ = sectioned(STRTAB, shentsize=63).sections
    wide = sectioned(STRTAB + b"zz", row(1) + b"zz", shentsize=66)
    assert [s.name for s in wide.sections] == ["", ".text"]
    for extra, taken in ((b"", True), (b"\0" * 63, False), (b"\0" * 64, True)):
        elf = sectioned(STRTAB, after=extra, shnum=1 if not extra else 2)
        if taken:
            assert len(elf.sections) == (2 if extra else 1)
        else:
            with pytest.raises(Malformed, match=f"claims 2 sections at offset {64 + len(NAMES)}"):
                _ = elf.sections
    assert elves.MAX_SECTIONS == 100_000
    monkeypatch.setattr(elves, "MAX_SECTIONS", 2)
    assert len(sectioned(STRTAB, row()).sections) == 2
    with pytest.raises(Malformed, match="claims 3 sections"):
        _ = sectioned(STRTAB, row(), row()).sections


def test_counts_too_large_for_the_header_stand_in_the_first_row() -> None:
    first = struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, 3, 2, 0, 0, 0)
    elf = sectioned(first, row(1), STRTAB, shnum=0, shstrndx=0xFFFF)
    assert [s.name for s in elf.sections] == ["", ".text", ""]
    with pytest.raises(Malformed, match="in section 65534, which does not exist"):
        _ = sectioned(first, row(1), STRTAB, shstrndx=0xFFFE).sections
    with pytest.raises(Malformed, match="in section 3, which does not exist"):
        _ = sectioned(first, row(1), STRTAB, shstrndx=3).sections
    assert sectioned(first, row(1), STRTAB, shstrndx=2).section(".text")


@pytest.mark.parametrize(
    ("kind", "address", "size", "taken"),
    [(8, (1 << 57) - 1, 0, True), (8, 1 << 57, 0, False), (8, 0, (1 << 57) - 1, True), (8, 0, 1 << 57, False),
     (0, 1 << 57, 1 << 57, True), (1, 1 << 57, 0, False)],
)  # fmt: skip
def test_addresses_no_cpu_has(kind: int, address: int, size: int, taken: bool) -> None:
    elf = sectioned(STRTAB, row(1, kind, address, 0, size))
    if taken:
        assert elf.sections[1].size == size
    else:
        with pytest.raises(Malformed, match="section beyond any address"):
            _ = elf.sections


def test_names_outside_the_table_are_empty() -> None:
    elf = sectioned(STRTAB, row(len(NAMES) - 1), row(len(NAMES)), row(len(NAMES) + 1), row(2))
    assert [s.name for s in elf.sections] == ["", "", "", "", "text"]
    short = sectioned(row(0, 3, 0, 64, 7), row(6), row(7))
    assert [s.name for s in short.sections] == ["", "", ""]
    with pytest.raises(Malformed, match="never ends"):
        _ = sectioned(row(0, 3, 0, 64, 6), row(1)).sections


def test_flags_and_kinds_are_those_of_the_format() -> None:
    assert (elves.SHT_NULL, elves.SHT_NOBITS, elves.SHF_WRITE, elves.SHF_EXECINSTR) == (0, 8, 1, 4)
    text = Elf(make_elf({".text": b"\x90"})).section(".text")
    assert text is not None
    assert text.flags & elves.SHF_EXECINSTR
    assert not text.flags & elves.SHF_WRITE
