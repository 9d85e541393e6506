"""Who refers to whom besides direct calls: relocations, packed ones, constructors, slots and stubs, made by hand."""

from __future__ import annotations

import struct

import pytest

from binaries import make_pe
from rekindle.formats import references
from rekindle.formats.functions import SYMBOL
from rekindle.formats.pe import Pe
from rekindle.formats.references import References, read_pe_references, read_references
from small_elf import RELA, STRTAB, Part, names, rela, small_elf, symbol

LONG = "n" * 1100
STRINGS, AT = names("foreign", "own", "data", LONG)
# machine -> number and the kinds: relative, absolute, slot of data, slot of a function, chosen by a resolver
MACHINES = {"x86_64": (62, 8, 1, 6, 7, 37), "aarch64": (183, 1027, 257, 1025, 1026, 1032)}
SYMBOLS = (
    symbol(0, 0, section=0)
    + symbol(AT["foreign"], 0, section=0)
    + symbol(AT["own"], 0x7000)
    + symbol(AT[LONG], 0, section=0)
)


def read(rows: bytes, *more: Part, machine: str = "x86_64", name: str = ".rela.dyn", kind: int = RELA) -> References:
    parts = [
        Part(".dynstr", STRINGS, kind=STRTAB), Part(".dynsym", SYMBOLS, kind=11, link=".dynstr"),
        Part(name, rows, kind=kind), *more,
    ]  # fmt: skip
    return read_references(small_elf(parts, machine=MACHINES[machine][0]))


@pytest.mark.parametrize("machine", MACHINES)
def test_what_each_kind_of_relocation_says(machine: str) -> None:
    _, relative, absolute, data, jump, resolver = MACHINES[machine]
    rows = rela(0x100, relative, 0x5000) + rela(0x90, absolute, 4, 2) + rela(0x80, data, 0, 2) + rela(0x70, jump, 0, 2)
    rows += rela(0x60, absolute, 9, 1) + rela(0x50, data, 0, 1) + rela(0x40, jump, 0, 1) + rela(0x30, resolver, 0x6000)
    found = read(rows, machine=machine)
    assert found.pointers.tolist() == [[0x70, 0x7000], [0x80, 0x7000], [0x90, 0x7004], [0x100, 0x5000]]
    assert found.imports == {0x60: "foreign", 0x50: "foreign", 0x40: "foreign"}
    assert found.resolvers.tolist() == [0x6000]
    assert not len(found.started) and not found.stubs and not found.libraries


@pytest.mark.parametrize("machine", MACHINES)
def test_other_kinds_say_nothing(machine: str) -> None:
    known = MACHINES[machine][1:]
    rows = b"".join(
        rela(8 * kind, kind, 0x5000, 2) for one in known for kind in (one - 1, one + 1) if kind not in known
    )
    found = read(rows, machine=machine)
    assert not len(found.pointers) and not found.imports and not len(found.resolvers)


def test_symbols_and_addends() -> None:
    # The number of a symbol is the upper half alone; the last one is there, the one behind it is not.
    found = read(rela(0x10, 6, 0, 3) + rela(0x20, 6, 0, 4) + rela(0x30, 6, 0, 0) + rela(0x40, 1, -0x10, 2))
    assert found.imports == {0x10: "n" * 1024, 0x30: ""}
    assert found.pointers.tolist() == [[0x40, 0x6FF0]]
    assert not len(read(rela(0x10, 8, 0x5000)[:-1]).pointers), "half a row"


@pytest.mark.parametrize(
    ("name", "kind", "read_at_all"),
    [
        (".rela.dyn", RELA, 1),
        (".rela.plt", RELA, 1),
        (".rela.iplt", RELA, 1),
        (".rela.text", RELA, 0),
        (".rela.dyn", 9, 0),
    ],
)
def test_only_tables_the_loader_applies(name: str, kind: int, read_at_all: int) -> None:
    assert len(read(rela(0x10, 8, 0x5000), name=name, kind=kind).pointers) == read_at_all


def test_names_that_reach_out_of_their_table() -> None:
    table = b"\0abc"  # its last name has no end
    for offset, name in ((0, ""), (1, "abc"), (3, "c"), (4, ""), (99, "")):
        parts = [
            Part(".dynstr", table, kind=STRTAB), Part(".behind", b"zzzz" * 30),
            Part(".dynsym", symbol(offset, 0, section=0), kind=11, link=".dynstr"),
            Part(".rela.dyn", rela(0x10, 6), kind=RELA),
        ]  # fmt: skip
        assert read_references(small_elf(parts)).imports == {0x10: name}
    assert SYMBOL.itemsize == 24


@pytest.mark.parametrize("symbols", [[], [Part(".dynsym", b"", kind=11)]])
def test_without_symbols_only_relative_ones_remain(symbols: list[Part]) -> None:
    parts = [*symbols, Part(".rela.dyn", rela(0x10, 8, 0x5000) + rela(0x20, 6), kind=RELA)]
    found = read_references(small_elf(parts))
    assert found.pointers.tolist() == [[0x10, 0x5000]] and not found.imports


def test_other_machines_have_none() -> None:
    parts = [Part(".rela.dyn", rela(0x10, 8, 0x5000), kind=RELA), Part(".init_array", bytes(8), 0x10)]
    found = read_references(small_elf(parts, machine=243))
    assert found.pointers.shape == (0, 2) and found.started.shape == (0,) and not found.imports and not found.stubs


def test_constructors_are_what_the_array_points_to() -> None:
    rows = b"".join(rela(slot, 8, 0x5000 + slot) for slot in (0x1F8, 0x200, 0x208, 0x210)) + rela(0x208, 8, 0x5208)
    found = read(rows, Part(".init_array", bytes(16), 0x200))
    assert found.started.tolist() == [0x5200, 0x5208]


def test_packed_relocations_are_addresses_and_bitmaps() -> None:
    data = struct.pack("<200q", *(0x9000 + 16 * number for number in range(200)))

    def slots(*words: int, extra: bytes = b"") -> list[int]:
        packed = Part(".relr.dyn", struct.pack(f"<{len(words)}Q", *words) + extra)
        found = read(b"", packed, Part(".data", data, 0x3000))
        assert all(value == 0x9000 + 2 * (slot - 0x3000) for slot, value in found.pointers.tolist())
        return [(slot - 0x3000) // 8 for slot in found.pointers[:, 0].tolist()]

    assert slots(0x3000) == [0] and slots(0x3000, 0x3010) == [0, 2]
    assert slots(0x3000, 0b11) == [0, 1] and slots(0x3000, 0b1001) == [0, 3]
    assert slots(0x3008, 1 << 63 | 1) == [1, 64], "63 words after the address and its slot"
    assert slots(0x3000, 1, 0b111) == [0, 64, 65], "the second bitmap goes on where the first ended"
    assert slots(0x3000, extra=b"\x10\x30") == [0], "half a word at the end"
    # Slots that no byte of the file fills are left out: before the first, behind the last, half outside.
    assert slots(0x2FF8, 0b11) == [0] and slots(0x3000 + 199 * 8) == [199]
    assert slots(0x3000 + 200 * 8) == []
    assert not len(read(b"", Part(".data", data, 0x3000)).pointers)


def test_a_slot_at_the_very_end_of_the_file() -> None:
    """Packed relocations whose slot begins in the file and does not end there."""
    whole = small_elf([Part(".relr.dyn", struct.pack("<2Q", 0x3000, 0x3008)), Part(".data", bytes(16), 0x3000)])
    last = whole.offset_of(0x3008)
    assert last is not None
    short = type(whole)(bytes(whole.view.data)[: last + 7])
    full = type(whole)(bytes(whole.view.data)[: last + 8])
    for elf, rows in ((full, [[0x3000, 0], [0x3008, 0]]), (short, [[0x3000, 0]])):
        elf.__dict__["sections"] = whole.sections
        assert references._packed_relative(elf).tolist() == rows


def test_stubs_of_every_table_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = b"\xff\x25" + struct.pack("<i", 0x100)
    parts = [Part(".plt", jump + b"\x66\x90", 0x100), Part(".plt.got", jump, 0x200), Part(".text", jump, 0x300)]
    elf = small_elf(parts)
    assert read_references(elf).stubs == {0x100: 0x206, 0x200: 0x306}
    assert references.MAX_STUBS == 2_000_000
    monkeypatch.setattr(references, "MAX_STUBS", 1)
    assert read_references(elf).stubs == {0x200: 0x306}


def test_endbr_stands_before_bnd_and_not_behind_it() -> None:
    jump = b"\xff\x25" + struct.pack("<i", 0x100)
    for before, begin in (
        (b"\xf3\x0f\x1e\xfa\xf2", 0),
        (b"\xf2\xf3\x0f\x1e\xfa", 1),
        (b"\x0f\x1e\xfa", 3),
        (b"\xf2", 0),
    ):
        elf = small_elf([Part(".plt", before + jump, 0x100)])
        assert read_references(elf).stubs == {0x100 + begin: 0x206 + len(before)}


ADRP, LDR, BTI = 0x90000010, 0xF9400211, 0xD503245F


def arm(*words: int) -> dict[int, int]:
    elf = small_elf([Part(".plt", struct.pack(f"<{len(words)}I", *words), 0x5008)], machine=183)
    return read_references(elf).stubs


def test_stubs_of_arm_word_by_word() -> None:
    assert arm(ADRP, LDR) == {0x5008: 0x5000}
    assert arm(ADRP, LDR | 0xFFF << 10) == {0x5008: 0x5000 + 0xFFF * 8}
    for bit, pages in ((29, 1), (30, 2), (5, 4), (22, 1 << 19)):
        assert arm(ADRP | 1 << bit, LDR) == {0x5008: 0x5000 + (pages << 12)}, bit
    assert arm(ADRP | 1 << 23, LDR) == {0x5008: 0x5000 - (1 << 32)}, "the highest bit is the sign"
    assert arm(ADRP | 0x7FFFF << 5 | 3 << 29, LDR) == {0x5008: 0x4000}
    # Neither another register, nor adr, nor a load of another size, base or target.
    for bit in (0, 1, 2, 3, 4, 24, 25, 26, 27, 28, 31):
        assert arm(ADRP ^ 1 << bit, LDR) == {}, bit
    for bit in (*range(10), *range(22, 32)):
        assert arm(ADRP, LDR ^ 1 << bit) == {}, bit
    assert arm(BTI, ADRP, LDR) == {0x5008: 0x5000} and arm(ADRP, BTI, ADRP, LDR) == {0x500C: 0x5000}
    assert arm(ADRP, LDR, ADRP, LDR) == {0x5008: 0x5000, 0x5010: 0x5000}
    assert arm(LDR, ADRP, LDR, 0, BTI) == {0x500C: 0x5000}
    assert arm() == arm(ADRP) == {}


def test_the_page_is_that_of_the_instruction() -> None:
    """A stub behind a page's end counts from its own page, not from the section's."""
    words = struct.pack("<6I", 0, 0, 0, 0, ADRP, LDR)
    elf = small_elf([Part(".plt", words, 0x5FF0)], machine=183)
    assert read_references(elf).stubs == {0x6000: 0x6000}


def pe(code: bytes, machine: int = 0x8664, *, with_name: bool = True) -> Pe:
    """One library, one slot at 0x3040, code at 0x2000."""
    lookup = struct.pack("<QQ", 0x3050 if with_name else 1 << 63 | 5, 0)
    slots = lookup.ljust(0x40, b"\0") + lookup + struct.pack("<H", 0) + b"function\0"
    data = bytearray(make_pe({".text": code, ".rdata": slots}, imports=["other.dll"], machine=machine))
    struct.pack_into("<I", data, 0x400, 0x3000)
    struct.pack_into("<I", data, 0x400 + 16, 0x3040)
    return Pe(bytes(data))


def jump(at: int, slot: int = 0x3040) -> bytes:
    return b"\xff\x25" + struct.pack("<i", slot - at - 6)


def test_a_windows_image_jumps_through_its_slots() -> None:
    found = read_pe_references(pe(jump(0x2000)))
    assert found.imports == {0x3040: "function"} and found.libraries == {0x3040: "other.dll"}
    assert found.stubs == {0x2000: 0x3040}
    assert found.pointers.shape == (0, 2) and found.started.shape == found.resolvers.shape == (0,)
    assert read_pe_references(pe(b"\xcc" * 7 + jump(0x2007) + b"\xcc")).stubs == {0x2007: 0x3040}
    for other in (
        jump(0x2000, 0x3041),
        jump(0x2000, 0x303F),
        b"\xff\x24" + jump(0x2000)[2:],
        b"\xfe" + jump(0x2000)[1:],
    ):
        assert read_pe_references(pe(other)).stubs == {}
    assert read_pe_references(pe(jump(0x2000), 0xAA64)).stubs == {}
    assert read_pe_references(pe(jump(0x2000), with_name=False)).stubs == {}


@pytest.mark.parametrize("size", range(9))
def test_code_of_a_few_bytes(size: int) -> None:
    image = pe((jump(0x2000) + b"\xff\xff")[:size])
    [text] = [section for section in image.sections if section.name == ".text"]
    object.__setattr__(text, "size", size)  # as if the file did not fill its last block
    assert read_pe_references(image).stubs == ({0x2000: 0x3040} if size >= 6 else {})


def test_stubs_across_the_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert references.STRETCH == 16 * 1024 * 1024
    monkeypatch.setattr(references, "STRETCH", 16)
    for at in range(40):
        code = b"\xcc" * at + jump(0x2000 + at) + b"\xcc" * 10 + jump(0x2010 + at)
        assert read_pe_references(pe(code)).stubs == {0x2000 + at: 0x3040, 0x2010 + at: 0x3040}


def test_what_follows_the_code_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "STRETCH", 16)
    image = pe(b"\xcc" * 20 + jump(0x2014))
    [text] = [section for section in image.sections if section.name == ".text"]
    for size, stubs in ((26, {0x2014: 0x3040}), (25, {})):
        object.__setattr__(text, "size", size)
        assert read_pe_references(image).stubs == stubs
