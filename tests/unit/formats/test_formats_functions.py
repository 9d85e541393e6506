"""Where functions begin and end, made by hand: symbols, the unwind table, Windows' function table and exports."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from binaries import make_pe
from rekindle.formats import functions as module
from rekindle.formats.elf import Elf
from rekindle.formats.functions import Code, Functions, code_of, find_functions
from rekindle.formats.pe import Pe
from rekindle.formats.view import Malformed
from small_elf import (
    CODE,
    FILE,
    GLOBAL,
    IFUNC,
    LOCAL,
    NOBITS,
    OBJECT,
    STRTAB,
    SYMTAB,
    WEAK,
    Part,
    names,
    small_elf,
    symbol,
)

LONG = "x" * 300
STRINGS, AT = names("alpha", "beta", "gamma", "a.c", "b.c", "y" * 256, LONG, "z" * 5000)
TEXT = Part(".text", b"\x90" * 0x100, 0x1000, flags=CODE)


def library(*rows: bytes, table: str = ".symtab", more: tuple[Part, ...] = (), text: Part = TEXT) -> Functions:
    parts = [Part(".strings", STRINGS, kind=STRTAB), Part(table, b"".join(rows), kind=SYMTAB, link=".strings"), text]
    return find_functions(small_elf([*parts, *more]))


def spans(found: Functions) -> list[tuple[int, int]]:
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def test_symbols_that_are_functions() -> None:
    found = library(
        symbol(AT["alpha"], 0x1010, size=4),
        symbol(AT["beta"], 0x1020, kind=IFUNC, size=4),
        symbol(AT["gamma"], 0x1030, kind=OBJECT, size=4),
        symbol(AT["gamma"], 0x1040, section=0, size=4),  # from elsewhere
        *(symbol(AT["gamma"], 0x1050 + kind, kind=kind) for kind in (0, 3, 5, 9, 11)),
    )
    assert spans(found) == [(0x1010, 0x1014), (0x1020, 0x1024)]
    assert [found.name(0), found.name(1), len(found)] == ["alpha", "beta", 2]
    assert found.named(0) and not found.exported.any()


def test_only_inside_the_code() -> None:
    found = library(*(symbol(AT["alpha"], value) for value in (0xFFF, 0x1000, 0x10FF, 0x1100)))
    assert spans(found) == [(0x1000, 0x10FF), (0x10FF, 0x1100)]


def test_ends() -> None:
    """By its size, not into the next one, and without a size up to it; never out of the section."""
    rows = [symbol(0, 0x1000, size=8), symbol(0, 0x1010, size=0x18), symbol(0, 0x1020), symbol(0, 0x1030, size=1 << 60)]
    assert spans(library(*rows)) == [(0x1000, 0x1008), (0x1010, 0x1020), (0x1020, 0x1030), (0x1030, 0x1100)]
    assert spans(library(symbol(0, 0x1000, size=1))) == [(0x1000, 0x1001)]
    more = Part(".text.cold", b"\x90" * 0x10, 0x1100, flags=CODE)
    assert spans(library(symbol(0, 0x10F0), symbol(0, 0x1108, size=9), more=(more,))) == [
        (0x10F0, 0x1100), (0x1108, 0x1110),
    ]  # fmt: skip
    assert spans(library(symbol(0, 0x1100, size=4), more=(more,))) == [(0x1100, 0x1104)], (
        "the first byte of the next one"
    )


def test_sizes_beyond_any_file_are_cut() -> None:
    assert spans(library(symbol(0, 0x1000, size=(1 << 64) - 1))) == [(0x1000, 0x1100)]


def test_of_several_names_a_global_one_is_kept() -> None:
    rows = [symbol(AT[name], 0x1000, binding=binding) for name, binding in (("alpha", LOCAL), ("beta", GLOBAL))]
    for order in (rows, rows[::-1]):
        found = library(*order)
        assert [found.name(0), found.binding(0), len(found)] == ["beta", GLOBAL, 1]
    assert library(symbol(AT["beta"], 0x1000, binding=WEAK)).binding(0) == WEAK
    assert (module.LOCAL, module.GLOBAL, module.WEAK) == (LOCAL, GLOBAL, WEAK)


def test_symbols_in_any_order() -> None:
    found = library(symbol(AT["beta"], 0x1020, size=4), symbol(AT["alpha"], 0x1010, size=4))
    assert [found.name(0), found.name(1)] == ["alpha", "beta"]
    assert spans(found) == [(0x1010, 0x1014), (0x1020, 0x1024)]


def test_who_holds_an_address() -> None:
    found = library(symbol(0, 0x1010, size=4), symbol(0, 0x1014, size=4))
    assert [found.at(address) for address in (0x100F, 0x1010, 0x1013, 0x1014, 0x1017, 0x1018)] == [
        None,
        0,
        0,
        1,
        1,
        None,
    ]


def test_files_of_local_functions() -> None:
    rows = [
        symbol(0, 0, kind=0, section=0), symbol(AT["alpha"], 0x1000, binding=LOCAL),
        symbol(AT["a.c"], 0, kind=FILE, binding=LOCAL, section=0xFFF1), symbol(AT["beta"], 0x1010, binding=LOCAL),
        symbol(AT["b.c"], 0, kind=FILE, binding=LOCAL, section=0xFFF1), symbol(AT["beta"], 0x1020, binding=LOCAL),
        symbol(AT["beta"], 0x1030, binding=GLOBAL), symbol(0, 0, kind=FILE, binding=LOCAL, section=0xFFF1),
        symbol(AT["gamma"], 0x1040, binding=LOCAL),
    ]  # fmt: skip
    found = library(*rows)
    assert [found.file(index) for index in range(5)] == ["", "a.c", "b.c", "", ""]
    assert found.all_files() == ["a.c", "b.c", ""]
    # Symbols for the loader alone name no files.
    only = library(*rows, table=".dynsym")
    assert [only.file(index) for index in range(5)] == [""] * 5 and only.all_files() == []


def test_names_of_any_length() -> None:
    found = library(*(symbol(AT[name], 0x1000 + at) for at, name in enumerate(["y" * 256, LONG, "z" * 5000])))
    assert [found.name(index) for index in range(3)] == ["y" * 256, LONG, "z" * 4096]
    # The first byte is a name, the last is one, the one behind it is none: then the address stands for it.
    for offset, name in ((0, "function at 0x1000"), (len(STRINGS) - 2, "z"), (len(STRINGS) - 1, "function at 0x1000")):
        assert library(symbol(offset, 0x1000)).name(0) == name
    assert library(symbol(len(STRINGS), 0x1000)).name(0) == "function at 0x1000"


def test_a_name_that_never_ends_stops_with_its_table() -> None:
    parts = [
        Part(".s", b"\0" + b"q" * 9, kind=STRTAB),
        Part(".symtab", symbol(1, 0x1000), kind=SYMTAB, link=".s"),
        TEXT,
    ]
    assert find_functions(small_elf(parts)).name(0) == "q" * 9
    parts[0] = Part(".s", b"\0" + b"q" * 400, kind=STRTAB)
    assert find_functions(small_elf(parts)).name(0) == "q" * 400


def test_what_is_exported() -> None:
    rows = [
        symbol(0, 0x1010), symbol(0, 0x1020, binding=WEAK), symbol(0, 0x1030, binding=LOCAL),
        symbol(0, 0x1040, section=0),
    ]  # fmt: skip
    dynamic = Part(".dynsym", b"".join(rows), kind=11, link=".strings")
    found = library(*(symbol(0, at, size=4) for at in (0x1010, 0x1020, 0x1030, 0x1040)), more=(dynamic,))
    assert found.exported.tolist() == [True, True, False, False]
    empty = Part(".dynsym", b"", kind=11, link=".strings")
    assert library(symbol(0, 0x1010), more=(empty,)).exported.tolist() == [False]


def test_tables_without_rows_or_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(library()) == 0 and library().all_files() == []
    assert len(find_functions(small_elf([TEXT]))) == 0
    for link, fits in ((1, True), (3, True), (4, False), (0xFFF, False)):
        elf = small_elf([Part(".symtab", symbol(1, 0x1000), kind=SYMTAB), TEXT])
        row = bytearray(elf.view.data)
        at = struct.unpack_from("<Q", row, 40)[0] + 64 + 40
        struct.pack_into("<I", row, at, link)
        if fits:
            assert len(find_functions(Elf(bytes(row)))) == 1
        else:
            with pytest.raises(Malformed, match="nowhere"):
                find_functions(Elf(bytes(row)))
    assert module.MAX_SYMBOLS == 50_000_000
    rows = [symbol(0, 0x1000 + at) for at in range(4)]
    monkeypatch.setattr(module, "MAX_SYMBOLS", 4)
    assert len(library(*rows)) == 4
    monkeypatch.setattr(module, "MAX_SYMBOLS", 3)
    with pytest.raises(Malformed, match="claims 4 symbols"):
        library(*rows)


def test_code_is_what_may_run_without_the_linkers_own() -> None:
    parts = [
        Part(".text", b"a" * 5, 0x1000, flags=CODE), Part(".plt", b"b", 0x2000, flags=CODE),
        Part(".plt.sec", b"b", 0x3000, flags=CODE), Part(".init", b"b", 0x4000, flags=CODE),
        Part(".fini", b"b", 0x5000, flags=CODE), Part(".data", b"b", 0x6000, flags=3),
        Part(".none", b"", 0x7000, flags=CODE), Part(".bss", b"", 0x8000, flags=CODE, kind=NOBITS, says=9),
        Part(".odd", b"cc", 0x9000, flags=4),
    ]  # fmt: skip
    elf = small_elf(parts)
    want = [
        (section.address, section.offset, section.size) for section in elf.sections if section.name in (".text", ".odd")
    ]
    assert [(part.address, part.offset, part.size) for part in code_of(elf)] == want
    assert [size for _, _, size in want] == [5, 2]
    with pytest.raises(Malformed, match="outside"):
        code_of(small_elf([Part(".text", b"a", 0x1000, flags=CODE, says=1 << 20)]))


def test_segments_where_the_section_table_is_gone() -> None:
    parts = [
        Part("a", b"a" * 16, 0x1000),
        Part("b", b"b" * 16, 0x2000),
        Part("c", b"c" * 16, 0x3000),
        Part("d", b"", 0x4000),
    ]
    elf = small_elf(parts, sections=False, segments=[(1, 5, "a"), (1, 6, "b"), (2, 5, "c"), (1, 1, "d")])
    assert [(part.address, part.size) for part in code_of(elf)] == [(0x1000, 16), (0x4000, 0)]
    cut = Elf(bytes(elf.view.data)[: elf.segments[0].offset + 15])
    assert code_of(cut) == []
    mapped = small_elf([Part("a", b"a", 0x1000)], segments=[(1, 5, "a")])
    assert code_of(mapped) == [], "sections that say it is no code are believed"


HEADER, FRAMES = 0x5000, 0x6000


def unwind(
    rows: list[tuple[int, int]], head: bytes = b"\x01\x1b\x03\x3b", count: int | None = None, extra: int = 0
) -> tuple[Part, Part]:
    """Rows of (start, length); the description of each is 24 bytes long."""
    table = head + struct.pack("<iI", 0, len(rows) if count is None else count)
    frames = b""
    for number, (start, length) in enumerate(rows):
        table += struct.pack("<ii", start - HEADER, FRAMES + 24 * number - HEADER)
        frames += struct.pack("<IIiI", 20, 4, 0, length) + b"\xee" * 8
    return Part(".eh_frame_hdr", table + bytes(extra), HEADER), Part(".eh_frame", frames, FRAMES)


def test_the_unwind_table_tells_what_has_no_symbol() -> None:
    parts = unwind([(0x1010, 4), (0x1020, 0x12345), (0x1030, 0), (0x1040, 0x300), (0x1200, 4)])
    found = library(symbol(AT["alpha"], 0x1010, size=0x10), more=parts)
    assert spans(found) == [(0x1010, 0x1020), (0x1020, 0x1030), (0x1030, 0x1040), (0x1040, 0x1100)]
    assert [found.named(index) for index in range(4)] == [True, False, False, False]
    assert found.name(1) == "function at 0x1020" and found.file(1) == "" and found.binding(1) == LOCAL
    assert found.exported.tolist() == [False] * 4 and found.symbol.tolist() == [0, -1, -1, -1]


def test_a_symbol_covers_what_lies_in_it() -> None:
    for start, new in ((0x100F, 1), (0x1010, 0), (0x101F, 0), (0x1020, 1)):
        assert len(library(symbol(0, 0x1010, size=0x10), more=unwind([(start, 1)]))) == 1 + new, hex(start)
    for start, new in ((0x1010, 0), (0x1011, 1)):
        assert len(library(symbol(0, 0x1010), more=unwind([(start, 1)]))) == 1 + new, (
            "one without a size covers its start"
        )
    assert spans(library(more=unwind([(0x1010, 4)]))) == [(0x1010, 0x1014)], "no symbol at all"
    assert spans(library(symbol(0, 0x1040, size=4), more=unwind([(0x1010, 4)]))) == [(0x1010, 0x1014), (0x1040, 0x1044)]


def test_a_symbol_without_a_size_ends_as_the_unwind_table_says() -> None:
    """Wherever its row stands; without one it runs up to the next, or to the end."""
    rows = [(0x1010, 4), (0x1020, 6), (0x1040, 8)]
    symbols = [symbol(0, value) for value in (0x1010, 0x1020, 0x1030, 0x1040, 0x1080)]
    ends = [(0x1010, 0x1014), (0x1020, 0x1026), (0x1030, 0x1040), (0x1040, 0x1048), (0x1080, 0x1100)]
    assert spans(library(*symbols, more=unwind(rows))) == ends
    assert spans(library(symbol(0, 0x1040, size=2), more=unwind(rows)))[-1] == (0x1040, 0x1042)


def test_rows_of_the_unwind_table_in_any_order() -> None:
    found = library(more=unwind([(0x1030, 4), (0x1010, 0x40)]))
    assert spans(found) == [(0x1010, 0x1030), (0x1030, 0x1034)]


def test_lengths_of_four_bytes() -> None:
    big = Part(".text", bytes(0x40000), 0x1000, flags=CODE)
    for length in (0x21, 0x2100, 0x30001):
        assert spans(library(more=unwind([(0x1000, length)]), text=big)) == [(0x1000, 0x1000 + length)]
    assert spans(library(more=unwind([(0x1000, 0x1000000)]), text=big)) == [(0x1000, 0x41000)]
    last = Part(".text", bytes(0x200000), 0x1000, flags=CODE)
    assert spans(library(more=unwind([(0x1000, 0)]), text=last)) == [(0x1000, 0x101000)], (
        "at most a megabyte is believed"
    )


@pytest.mark.parametrize("head", [b"\x02\x1b\x03\x3b", b"\x01\x1b\x04\x3b", b"\x01\x1b\x03\x3c", b"\x00\x1b\x03\x3b"])
def test_unwind_tables_of_another_form(head: bytes) -> None:
    assert len(library(more=unwind([(0x1010, 4)], head))) == 0
    assert len(library(more=unwind([(0x1010, 4)], b"\x01\xff\x03\x3b"))) == 1, "how frames are named is not asked"


def test_unwind_tables_cut_short() -> None:
    rows = [(0x1010, 4), (0x1020, 4)]
    assert len(library(more=unwind(rows, count=3))) == 0
    assert len(library(more=unwind(rows, count=1))) == 1
    assert len(library(more=unwind(rows, extra=3))) == 2
    header, frames = unwind(rows)
    assert len(library(more=(header,))) == len(library(more=(frames,))) == 0
    assert len(library(more=(Part(".eh_frame_hdr", header.data[:11], HEADER), frames))) == 0
    assert len(library(more=(Part(".eh_frame_hdr", unwind([])[0].data, HEADER), frames))) == 0


def test_frames_outside_the_file() -> None:
    """Rows whose description is not in the file are left out; the last 16 bytes may hold one."""
    elf = small_elf([TEXT, *unwind([(0x1010, 4), (0x1020, 4)])])
    header, frames = elf.section(".eh_frame_hdr"), elf.section(".eh_frame")
    assert header is not None and frames is not None
    for offset, fits in ((elf.view.size - 16, 1), (elf.view.size - 15, 0), (0, 1), (-1, 0)):
        data = bytearray(elf.view.data)
        struct.pack_into("<i", data, header.offset + 12 + 12, offset - frames.offset + FRAMES - HEADER)
        assert len(find_functions(Elf(bytes(data)))) == 1 + fits, offset


def exports(at: int, *rows: tuple[int, str]) -> bytes:
    """An export directory that lies at ``at``."""
    tables, count = at + 40, len(rows)
    strings, places = b"", []
    for _, name in rows:
        places.append(tables + 10 * count + len(strings))
        strings += name.encode() + b"\0"
    head = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, 0, 1, count, count, tables, tables + 4 * count, tables + 8 * count)
    out = head + b"".join(struct.pack("<I", address) for address, _ in rows)
    return out + struct.pack(f"<{count}I", *places) + struct.pack(f"<{count}H", *range(count)) + strings


def windows(
    rows: Sequence[tuple[int, ...]],
    *exported: tuple[int, str],
    machine: int = 0x8664,
    more: dict[int, tuple[int, int]] | None = None,
) -> Functions:
    """Code at 0x2000, 512 bytes of it."""
    table = b"".join(struct.pack(f"<{len(row)}I", *row) for row in rows)
    names_ = exports(0x4000, *exported)
    directories = {3: (0x3000, len(table))} if rows else {}
    directories |= {0: (0x4000, len(names_))} if exported else {}
    sections = {".text": b"\x90" * 0x200, ".pdata": table or b"\0", ".edata": names_}
    return find_functions(Pe(make_pe(sections, machine=machine, more=directories | (more or {}))))


def test_windows_function_table() -> None:
    found = windows(
        [(0x2010, 0x2014, 1), (0x2020, 0x2044, 1), (0x2040, 0x2050, 1), (0x1FFF, 0x2001, 1), (0x2200, 0x2300, 1)]
    )
    assert spans(found) == [(0x2010, 0x2014), (0x2020, 0x2040), (0x2040, 0x2050)]
    assert found.symbol.tolist() == [-1] * 3 and found.name(0) == "function at 0x2010" and not found.named(0)
    assert found.all_files() == [] and found.file(0) == "" and found.binding(0) == LOCAL
    assert not found.exported.any() and found.names == {}
    assert len(windows([])) == 0


def test_rows_in_any_order_and_twice() -> None:
    assert spans(windows([(0x2040, 0x2050, 1), (0x2010, 0x2018, 1), (0x2010, 0x2014, 1)])) == [
        (0x2010, 0x2018), (0x2040, 0x2050),
    ]  # fmt: skip
    assert spans(windows([(0x2010, 0x2011, 1), (0x2011, 0x2012, 1)])) == [(0x2010, 0x2011), (0x2011, 0x2012)]


def test_the_table_of_arm_has_two_columns() -> None:
    found = windows([(0x2010, 7), (0x2020, 7)], machine=0xAA64)
    assert spans(found) == [(0x2010, 0x2020), (0x2020, 0x2200)]


def test_exports_have_names_and_leaves_are_found_by_them() -> None:
    rows = [(0x2010, 0x2020, 1), (0x2040, 0x2050, 1)]
    found = windows(rows, (0x2040, "kept"), (0x2018, "inside"), (0x2020, "leaf"), (0x2008, "early"), (0x5000, "data"))
    assert spans(found) == [(0x2008, 0x2010), (0x2010, 0x2020), (0x2020, 0x2040), (0x2040, 0x2050)]
    assert found.names == {0: "early", 2: "leaf", 3: "kept"}
    assert found.exported.tolist() == [True, False, True, True]
    assert [found.named(index) for index in range(4)] == [True, False, True, True]
    assert [found.name(index) for index in (0, 1)] == ["early", "function at 0x2010"]
    assert spans(windows([], (0x2040, "alone"), (0x2040, "again"))) == [(0x2040, 0x2200)]


def test_an_export_of_arm_is_in_the_function_that_begins_there_alone() -> None:
    """Its table says no ends, so an address behind a start may be a function of its own."""
    found = windows([(0x2010, 7)], (0x2010, "same"), (0x2011, "next"), machine=0xAA64)
    assert spans(found) == [(0x2010, 0x2011), (0x2011, 0x2200)]


def test_a_function_table_outside_the_file() -> None:
    with pytest.raises(Malformed, match="function table"):
        windows([(0x2010, 0x2014, 1)], more={3: (0x3000, 1 << 20)})
    assert spans(windows([(0x2010, 0x2014, 1)], more={3: (0x3000, 23)})) == [(0x2010, 0x2014)], "a row and a half"


def test_windows_code_is_what_is_marked_so() -> None:
    image = Pe(make_pe({".text": b"\x90" * 700, ".data": b"d"}))
    [part] = code_of(image)
    [text] = [section for section in image.sections if section.name == ".text"]
    assert part == Code(text.address, *image.content(text))
