"""Import tables with other names: what pefile, an independent reader, makes of the result, and what is refused."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pefile
import pytest

from binaries import make_pe
from rekindle.formats.pe import BOUND_IMPORT, CERTIFICATE, DEBUG, DELAY_IMPORT, LOAD_CONFIG, Pe
from rekindle.formats.pe_rewrite import rename_imports
from rekindle.formats.view import Malformed

LONG = "kindling-0123456789abcdef.dll"
OPTIONAL = 0x40 + 24


def _renamed(tmp_path: Path, data: bytes, **names: str) -> tuple[bytes, tuple[str, ...]]:
    path = tmp_path / "x.dll"
    path.write_bytes(data)
    done = rename_imports(path, {f"{old}.dll": new for old, new in (names or {"kindling": LONG}).items()})
    return path.read_bytes(), done


def _imports(data: bytes) -> list[str]:
    pe = pefile.PE(data=data)
    # make_pe's tables list no functions, so pefile is asked for the rows alone.
    at = pe.get_offset_from_rva(pe.OPTIONAL_HEADER.DATA_DIRECTORY[1].VirtualAddress)
    rows = iter(struct.iter_unpack("<5I", data[at : at + 20 * 20]))
    out = []
    while (row := next(rows))[3]:
        out.append(pe.get_string_at_rva(row[3]).decode())
    return out


def test_an_independent_reader_sees_the_new_name(tmp_path: Path) -> None:
    data = make_pe({".data": b"d" * 700}, imports=["KERNEL32.dll", "Kindling.DLL"])
    made, done = _renamed(tmp_path, data)
    assert done == ("Kindling.DLL",) and _imports(made) == ["KERNEL32.dll", LONG]
    theirs = pefile.PE(data=made)
    assert theirs.verify_checksum()
    last = theirs.sections[-1]
    assert last.Name == b".rknames" and last.PointerToRawData % 512 == 0 and last.SizeOfRawData % 512 == 0
    assert last.VirtualAddress == 0x3000, "behind the others, without a hole"
    assert theirs.OPTIONAL_HEADER.SizeOfImage == 0x4000
    assert theirs.OPTIONAL_HEADER.SizeOfInitializedData == 512
    before = Pe(data).sections
    assert Pe(made).sections[:-1] == before, "nothing that has an address moved"
    for section in before[1:]:
        start, size = Pe(made).content(section)
        assert made[start : start + size] == data[start : start + size]


def test_nothing_to_do_leaves_the_file_alone(tmp_path: Path) -> None:
    data = make_pe(imports=["KERNEL32.dll"])
    assert _renamed(tmp_path, data) == (data, ())


def test_two_names_and_once_more(tmp_path: Path) -> None:
    data = make_pe(imports=["a.dll", "b.dll", "c.dll"])
    once, _ = _renamed(tmp_path, data, a="a-1.dll", b="b-2.dll")
    twice, done = _renamed(tmp_path, once, c="c-3.dll")
    assert _imports(twice) == ["a-1.dll", "b-2.dll", "c-3.dll"] and done == ("c.dll",)
    assert pefile.PE(data=twice).verify_checksum()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 5000])
def test_what_follows_the_image_follows_it_still(tmp_path: Path, size: int) -> None:
    rest = bytes(i % 251 + 1 for i in range(size))
    data = bytearray(make_pe({".data": b"d"}, imports=["kindling.dll"]) + rest)
    symbols = len(data) - size
    struct.pack_into("<I", data, 0x40 + 12, symbols if size else 0)
    made, _ = _renamed(tmp_path, bytes(data))
    assert made.endswith(rest) and _imports(made) == [LONG]
    if size:
        (moved,) = struct.unpack_from("<I", made, 0x40 + 12)
        assert made[moved:] == rest, "the symbols are found where the header says"


def test_a_signature_goes_and_bound_imports_too(tmp_path: Path) -> None:
    data = bytearray(make_pe({".data": b"d"}, imports=["kindling.dll"]))
    signature = b"S" * 88
    struct.pack_into("<II", data, OPTIONAL + 112 + 8 * CERTIFICATE, len(data), len(signature))
    bound = 0x40 + 24 + 240 + 80  # right behind the two section headers, where linkers put it
    struct.pack_into("<II", data, OPTIONAL + 112 + 8 * BOUND_IMPORT, bound, 24)
    data[bound : bound + 24] = b"B" * 24
    struct.pack_into("<II", data, 0x400 + 4, 0xFFFFFFFF, 0xFFFFFFFF)
    made, _ = _renamed(tmp_path, bytes(data) + signature)
    assert b"SSSS" not in made
    theirs = pefile.PE(data=made)
    assert all(not theirs.OPTIONAL_HEADER.DATA_DIRECTORY[i].VirtualAddress for i in (CERTIFICATE, BOUND_IMPORT))
    assert struct.unpack_from("<II", made, 0x400 + 4) == (0, 0)
    assert _imports(made) == [LONG]


def test_delayed_imports_and_the_folder_that_is_searched(tmp_path: Path) -> None:
    name = b"kindling.dll\0"
    table = struct.pack("<8I", 1, 0x2000 + 64, 0, 0, 0, 0, 0, 0) + bytes(32) + name
    config = struct.pack("<I", 0x70) + bytes(0x4A) + struct.pack("<H", 0x800) + bytes(0x20)
    sections = {".didat": table, ".rdata": config}
    more = {DELAY_IMPORT: (0x2000, 64), LOAD_CONFIG: (0x3000, 0x70)}
    made, done = _renamed(tmp_path, make_pe(sections, imports=["KERNEL32.dll"], more=more))
    pe = Pe(made)
    assert done == ("kindling.dll",) and pe.delayed == (LONG,) and pe.needed == ("KERNEL32.dll",)
    at = pe.directory(LOAD_CONFIG)
    assert at and made[at[0] + 0x4E : at[0] + 0x50] == b"\0\0", "0x800 would search System32 only"


def _full_headers(sections: int, more: dict[int, tuple[int, int]] | None = None) -> bytes:
    return make_pe(
        {f".s{number}": b"%d" % number for number in range(sections - 1)}, imports=["kindling.dll"], more=more
    )


def test_headers_grow_where_they_are_full(tmp_path: Path) -> None:
    """0x400 bytes hold 17 section headers; what lies behind the headers moves in the file, not in memory."""
    debug = struct.pack("<IIHHIIII", 0, 0, 0, 0, 2, 4, 0, 0x600)
    data = bytearray(_full_headers(17, {DEBUG: (0x2000, 28)}))
    first = Pe(bytes(data)).sections[1]
    data[first.offset : first.offset + 28] = debug
    made, _ = _renamed(tmp_path, bytes(data))
    old, new = Pe(bytes(data)), Pe(made)
    assert new.sections[0].offset == old.sections[0].offset + 512
    assert [s.address for s in new.sections[:-1]] == [s.address for s in old.sections]
    for a, b in zip(old.sections[2:], new.sections[2:], strict=False):
        assert data[a.offset : a.offset + a.size] == made[b.offset : b.offset + b.size]
    found = new.directory(DEBUG)
    assert found and struct.unpack_from("<I", made, found[0] + 24) == (0x800,)
    assert _imports(made) == [LONG] and pefile.PE(data=made).verify_checksum()
    assert pefile.PE(data=made).OPTIONAL_HEADER.SizeOfHeaders == 0x600


def test_one_that_just_fits_does_not_grow(tmp_path: Path) -> None:
    made, _ = _renamed(tmp_path, _full_headers(16))
    assert Pe(made).sections[0].offset == 0x400


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (OPTIONAL + 32, 0, "aligned"),
        (OPTIONAL + 36, 3, "aligned"),
        (OPTIONAL + 36, 1 << 24, "aligned"),
        (0x40 + 24 + 240 + 40, 7, "of its own"),
    ],
)
def test_what_cannot_be_is_refused_and_left_alone(tmp_path: Path, at: int, value: int, reason: str) -> None:
    data = bytearray(make_pe(imports=["kindling.dll"]))
    struct.pack_into("<I", data, at, value)
    path = tmp_path / "x.dll"
    path.write_bytes(data)
    with pytest.raises(Malformed, match=reason):
        rename_imports(path, {"kindling.dll": LONG})
    assert path.read_bytes() == data and [p.name for p in tmp_path.iterdir()] == ["x.dll"]


def test_one_section_more_than_windows_loads(tmp_path: Path) -> None:
    data = bytearray(make_pe({".data": bytes(8192)}, imports=["kindling.dll"]))
    struct.pack_into("<H", data, 0x46, 96)
    with pytest.raises(Malformed, match="96 sections"):
        _renamed(tmp_path, bytes(data))


def test_headers_cannot_grow_into_the_first_section(tmp_path: Path) -> None:
    data = bytearray(_full_headers(17))
    struct.pack_into("<I", data, OPTIONAL + 60, 0x1000)
    with pytest.raises(Malformed, match="no room"):
        _renamed(tmp_path, bytes(data))


def test_delayed_imports_by_address_as_old_linkers_wrote_them(tmp_path: Path) -> None:
    base = 0x10000000
    table = struct.pack("<8I", 0, base + 0x2000 + 64, 0, 0, 0, 0, 0, 0) + bytes(32) + b"kindling.dll\0"
    data = bytearray(make_pe({".didat": table}, imports=["KERNEL32.dll"], more={DELAY_IMPORT: (0x2000, 64)}))
    struct.pack_into("<Q", data, OPTIONAL + 24, base)
    made, _ = _renamed(tmp_path, bytes(data))
    assert Pe(made).delayed == (LONG,)
    struct.pack_into("<Q", data, OPTIONAL + 24, base)
    row = Pe(bytes(data)).directory(DELAY_IMPORT)
    assert row is not None
    struct.pack_into("<Q", data, OPTIONAL + 24, 0xFFFFF000)
    struct.pack_into("<I", data, row[0] + 4, 0xFFFFF000 + 0x2000 + 64 & 0xFFFFFFFF)
    with pytest.raises(Malformed):
        _renamed(tmp_path, bytes(data))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows files have no mode")
def test_the_files_mode_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.dll"
    path.write_bytes(make_pe(imports=["kindling.dll"]))
    path.chmod(0o640)
    rename_imports(path, {"kindling.dll": LONG})
    assert path.stat().st_mode & 0o777 == 0o640
