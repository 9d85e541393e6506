"""PE images made by hand, one table at a time: sections lie at other offsets than addresses, bounds are met exactly."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from binaries import make_pe
from rekindle.formats import pe as images
from rekindle.formats.pe import Pe, PeSection, is_pe
from rekindle.formats.view import Malformed

BASE = 0x180000000
HEADER = 0x58  # of the optional header: 0x40 + 24
AT = 0x2000  # where the one section beside .idata is mapped; its bytes lie at 0x400
FILE = 0x400


def image(data: bytes, directories: Mapping[int, tuple[int, int]] | None = None) -> Pe:
    return Pe(make_pe({".data": data}, more=directories), "a.dll")


def patched(data: bytes, at: int, form: str, *values: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(form, out, at, *values)
    return bytes(out)


def placed(parts: Mapping[int, bytes], size: int = 0x600) -> bytes:
    """Bytes at the offsets of one section."""
    out = bytearray(size)
    for at, part in parts.items():
        out[at : at + len(part)] = part
    return bytes(out)


@pytest.mark.parametrize(
    ("number", "name"),
    [(0x8664, "x86_64"), (0xAA64, "aarch64"), (0x14C, "x86"), (0xA641, "arm64ec"), (0x1C4, "machine 0x1c4")],
)
def test_machines(number: int, name: str) -> None:
    assert Pe(make_pe(machine=number)).machine == name


def test_headers_that_are_no_64_bit_image() -> None:
    good = make_pe({".text": b"\x90"})
    assert is_pe(b"MZ")
    assert not is_pe(b"MX")
    assert not is_pe(b"M")
    assert Pe(good).image_base == BASE
    for at, form, value, word in (
        (0, "<B", 0x4E, "no Windows library"),
        (0x40, "<B", 0x51, "no PE header at offset 64"),
        (0x43, "<B", 1, "no PE header at offset 64"),
        (HEADER, "<H", 0x10B, "32-bit"),
        (HEADER, "<H", 0x20C, "32-bit"),
        (0x46, "<H", 97, "has 97 sections; Windows loads at most 96"),
    ):
        with pytest.raises(Malformed, match=word):
            Pe(patched(good, at, form, value))
    many = patched(good + b"\0" * 0x2000, 0x46, "<H", 96)
    assert len(Pe(many).sections) == 96


def test_at_most_sixteen_directories() -> None:
    more = {n: (n + 1, n + 2) for n in range(16)}
    good = make_pe(more=more)
    assert Pe(good).directories == tuple((n + 1, n + 2) for n in range(16))
    assert Pe(patched(good, HEADER + 108, "<I", 3)).directories == ((1, 2), (2, 3), (3, 4))
    assert len(Pe(patched(good, HEADER + 108, "<I", 99)).directories) == 16
    few = Pe(patched(good, HEADER + 108, "<I", 1))
    assert few.directory(1) is None
    with pytest.raises(Malformed, match="directory 0 lies outside"):
        few.directory(0)


def test_every_field_of_a_section() -> None:
    pe = Pe(make_pe({".text": b"\x90" * 600, ".verylong": b"z" * 5}))
    assert pe.sections[1:] == (
        PeSection(".text", 0x2000, 600, 0x400, 1024, 0x60000020),
        PeSection(".verylon", 0x3000, 5, 0x800, 512, 0x40000040),
    )
    assert [pe.content(s) for s in pe.sections[1:]] == [(0x400, 600), (0x800, 5)]
    text = pe.sections[1]
    assert text.flags & images.EXECUTE
    assert not text.flags & images.WRITE
    assert (images.EXECUTE, images.WRITE) == (1 << 29, 1 << 31)


def test_the_bytes_of_a_section() -> None:
    pe = Pe(make_pe({".text": b"\x90" * 600}))
    size = pe.view.size
    assert pe.content(PeSection("a", 0, 0, 0x400, 100, 0)) == (0x400, 100)
    assert pe.content(PeSection("a", 0, 900, 0x400, 100, 0)) == (0x400, 100)
    assert pe.content(PeSection("a", 0, 9, 0, size, 0)) == (0, 9)
    assert pe.content(PeSection("a", 0, 0, 1, size - 1, 0)) == (1, size - 1)
    with pytest.raises(Malformed, match="section a lies outside"):
        pe.content(PeSection("a", 0, 0, 1, size, 0))


def test_addresses_and_offsets() -> None:
    pe = image(b"x" * 512)
    assert [pe.offset_of(AT + at) for at in (0, 7, 511)] == [FILE, FILE + 7, FILE + 511]
    assert [pe.offset_of(at) for at in (AT - 1, AT + 512, 0)] == [None] * 3


def test_a_directory_in_and_outside_the_file() -> None:
    pe = image(b"x" * 512, {3: (AT + 511, 9), 4: (AT + 512, 1), 5: (0, 7)})
    assert pe.directory(3) == (FILE + 511, 9)
    assert pe.directory(5) is None
    assert pe.directory(16) is None
    with pytest.raises(Malformed, match="directory 4 lies outside"):
        pe.directory(4)


def import_row(lookup: int, name: int, slots: int) -> bytes:
    return struct.pack("<5I", lookup, 0, 0, name, slots)


def test_needed_libraries_end_with_a_blank_row() -> None:
    rows = import_row(1, AT + 0x100, 2) + import_row(1, AT + 0x108, 2)
    pe = image(placed({0: rows, 0x100: b"one.dll\0two.dll\0"}), {1: (AT, 1)})
    assert pe.needed == ("one.dll", "two.dll")
    assert image(b"x").needed == ()
    outside = image(placed({0: rows + import_row(1, 0x9000, 2), 0x100: b"one.dll\0two.dll\0"}), {1: (AT, 1)})
    with pytest.raises(Malformed, match="name of import 2 lies outside"):
        _ = outside.needed


def test_more_libraries_than_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (images.MAX_IMPORTS, images.MAX_EXPORTS, images.MAX_IMPORTED) == (4096, 262144, 262144)
    monkeypatch.setattr(images, "MAX_IMPORTS", 3)
    for count in (2, 3):
        pe = image(placed({0: import_row(1, AT + 0x100, 2) * count, 0x100: b"a\0"}), {1: (AT, 1)})
        if count < 3:
            assert pe.needed == ("a",) * count
        else:
            with pytest.raises(Malformed, match="more than 3 libraries"):
                _ = pe.needed


def test_delayed_libraries_by_address_and_by_rva() -> None:
    low = 0x400000
    by_rva = struct.pack("<8I", 1, AT + 0x100, 0, 0, 0, 0, 0, 0)
    by_address = struct.pack("<8I", 0, low + AT + 0x106, 0, 0, 0, 0, 0, 9)
    both = struct.pack("<8I", 3, AT + 0x100, 0, 0, 0, 0, 0, 0)
    data = make_pe({".data": placed({0: by_rva + by_address + both, 0x100: b"a.dll\0b.dll\0"})}, more={13: (AT, 1)})
    assert Pe(patched(data, HEADER + 24, "<Q", low)).delayed == ("a.dll", "b.dll", "a.dll")
    only = struct.pack("<8I", 2, AT + 0x100, 0, 0, 0, 0, 0, 0)
    with pytest.raises(Malformed, match="name of import 0"):
        _ = image(placed({0: only, 0x100: b"a\0"}), {13: (AT, 1)}).delayed
    # an ordinary table has no such addresses
    assert image(placed({0: import_row(0, AT + 0x100, 2), 0x100: b"a\0"}), {1: (AT, 1)}).needed == ("a",)


def test_names_together_are_no_longer_than_the_file() -> None:
    size = len(make_pe({".data": b"\0" * 0x1000}))
    name = b"n" * 0x400
    for count in (size // len(name), size // len(name) + 1):
        parts = placed({0: import_row(1, AT + 0x800, 2) * count, 0x800: name + b"\0"}, 0x1000)
        pe = image(parts, {1: (AT, 1)})
        assert pe.view.size == size
        if count * len(name) <= size:
            assert len(pe.needed) == count
        else:
            with pytest.raises(Malformed, match="repeats its names"):
                _ = pe.needed


@pytest.mark.parametrize(
    ("claimed", "at", "found"),
    [(0x60, 0, 0x1234), (0x5F, 0, None), (0x61, 0, 0x1234), (0x60, 0x5A0, 0x1234), (0x60, 0x5A1, None)],
)
def test_the_cookie(claimed: int, at: int, found: int | None) -> None:
    parts = placed({at + 0x58: struct.pack("<Q", BASE + 0x1234)})[:0x600]
    assert image(parts, {10: (AT + at, claimed)}).cookie == found
    assert image(b"x").cookie is None
    assert image(placed({}), {10: (AT, 0x60)}).cookie is None


def imported(rows: bytes, lists: Mapping[int, bytes]) -> Pe:
    names = {0x100: b"a.dll\0b.dll\0", 0x120: b"\7\7first\0\7\7second\0"}
    return image(placed({0: rows, **names, **lists}), {1: (AT, 1)})


FIRST, SECOND = AT + 0x120, AT + 0x128


def test_slots_of_imported_functions() -> None:
    rows = import_row(AT + 0x200, AT + 0x100, 0x7000) + import_row(0, AT + 0x106, AT + 0x240)
    lists = {
        0x200: struct.pack("<4Q", FIRST, 1 << 63 | FIRST, SECOND, 0),
        0x240: struct.pack("<2Q", SECOND, 0),
    }
    assert imported(rows, lists).imports == {
        0x7000: ("a.dll", "first"),
        0x7010: ("a.dll", "second"),
        AT + 0x240: ("b.dll", "second"),
    }
    high = {0x200: struct.pack("<3Q", 0x80000000 | FIRST, 0x900000, 0)}
    assert imported(import_row(AT + 0x200, AT + 0x100, 0x7000), high).imports == {0x7000: ("a.dll", "first")}
    nowhere = import_row(0x900000, AT + 0x100, 0x7000) + import_row(AT + 0x200, AT + 0x106, 0x8000)
    assert imported(nowhere, lists).imports[0x8000] == ("b.dll", "first")
    assert len(imported(nowhere, lists).imports) == 2
    assert image(b"x").imports == {}


def test_more_functions_than_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_IMPORTED", 3)
    for count in (3, 4):
        lists = {0x200: struct.pack("<Q", FIRST) * count}
        pe = imported(import_row(AT + 0x200, AT + 0x100, 0x7000), lists)
        if count == 3:
            assert len(pe.imports) == 3
        else:
            with pytest.raises(Malformed, match="more than 3 functions"):
                _ = pe.imports
    both = import_row(AT + 0x200, AT + 0x100, 0x7000) + import_row(AT + 0x200, AT + 0x106, 0x8000)
    with pytest.raises(Malformed, match="more than 3 functions"):
        _ = imported(both, {0x200: struct.pack("<Q", FIRST) * 2}).imports


def exporting(count: int, names: int, ordinals: tuple[int, ...], *, table: int = AT + 0x100) -> Pe:
    parts = {
        0: struct.pack("<5I2I3I", 0, 0, 0, 0, 0, count, names, table, AT + 0x140, AT + 0x180),
        0x100: struct.pack("<3I", 0x5000, 0x5010, AT + 0x200),
        0x140: struct.pack("<4I", AT + 0x1C0, AT + 0x1C4, 0x900000, AT + 0x1C8),
        0x180: struct.pack(f"<{len(ordinals)}H", *ordinals),
        0x1C0: b"one\0two\0six\0",
        0x200: b"other.thing\0",
    }
    return image(placed(parts), {0: (AT, 0x300)})


def test_named_exports() -> None:
    assert exporting(3, 2, (1, 0)).exports == ((0x5010, "one"), (0x5000, "two"))
    assert exporting(3, 4, (0, 1, 2, 2)).exports == ((0x5000, "one"), (0x5010, "two"), (AT + 0x200, "six"))
    assert exporting(1, 2, (0, 1)).exports == ((0x5000, "one"),)
    assert exporting(3, 0, ()).exports == exporting(3, 0, (), table=0).exports == ()
    assert image(b"x").exports == ()
    with pytest.raises(Malformed, match="export table cannot be"):
        _ = exporting(3, 2, (1, 0), table=0x900000).exports


def test_more_exports_than_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_EXPORTS", 2)
    assert len(exporting(2, 2, (0, 1)).exports) == 2
    with pytest.raises(Malformed, match="export table cannot be"):
        _ = exporting(2, 3, (0, 1, 2)).exports
    assert exporting(2, 2, ()).forwards == ()
    with pytest.raises(Malformed, match="export table cannot be"):
        _ = exporting(3, 2, ()).forwards


def test_forwards_are_addresses_inside_the_export_table() -> None:
    assert exporting(3, 2, ()).forwards == ("other",)
    assert exporting(2, 2, ()).forwards == ()
    assert exporting(3, 2, (), table=0x900000).forwards == ()
    assert exporting(0, 2, ()).forwards == ()
    for size, found in ((0x200, ()), (0x201, ("other",))):
        pe = exporting(3, 2, ())
        pe.directories = ((AT, size), *pe.directories[1:])
        assert pe.forwards == found
    parts = {
        0: b"lib.run\0".ljust(20, b"\0") + struct.pack("<2I3I", 2, 0, AT + 0x100, 0, 0),
        0x100: struct.pack("<2I", AT, AT + 0x140),
        0x140: b"alone\0",
    }
    assert image(placed(parts), {0: (AT, 0x200)}).forwards == ("lib",)
    assert image(b"x").forwards == ()


def test_a_row_without_a_name_ends_the_libraries() -> None:
    rows = import_row(1, AT + 0x100, 2) + import_row(1, 0, 2) + import_row(1, AT + 0x100, 2)
    assert image(placed({0: rows, 0x100: b"one.dll\0"}), {1: (AT, 1)}).needed == ("one.dll",)


def test_numbers_of_the_format() -> None:
    assert (images.EXCEPTION, images.CERTIFICATE, images.DEBUG, images.BOUND_IMPORT) == (3, 4, 6, 11)
    assert is_pe(b"MZ\x90")


@pytest.mark.parametrize(
    ("left", "text"), [(6, "has no 8 bytes"), (20, "ends before offset"), (38, "ends before offset")]
)
def test_a_table_of_sections_that_is_cut_says_where(left: int, text: str) -> None:
    data = make_pe({".data": b"x"})
    table = data.index(b".data")
    with pytest.raises(Malformed, match=text):
        Pe(data[: table + left], "a.dll")
