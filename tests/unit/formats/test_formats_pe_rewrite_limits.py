"""Import tables with other names, field by field: sums, alignments, what may lie behind the headers and the image."""

from __future__ import annotations

import io
import random
import struct
from pathlib import Path

import pytest

from binaries import make_pe
from rekindle.formats import pe_rewrite
from rekindle.formats.pe import BOUND_IMPORT, CERTIFICATE, DEBUG, LOAD_CONFIG, Pe
from rekindle.formats.pe_rewrite import checksum, rename_imports
from rekindle.formats.view import Malformed

START = 0x40
OPTIONAL = START + 24
DIRECTORIES = OPTIONAL + 112
TABLE = OPTIONAL + 240  # the section headers, of 40 bytes each


def renamed(tmp_path: Path, data: bytes) -> bytes:
    path = tmp_path / "x.dll"
    path.write_bytes(data)
    assert rename_imports(path, {"KINDLING.dll": "new.dll"}) == ("kindling.dll",)
    assert Pe(path.read_bytes()).needed == ("new.dll",)
    return path.read_bytes()


def image(*edits: tuple[int, str, int], sections: dict[str, bytes] | None = None, more: bytes = b"") -> bytes:
    data = bytearray(make_pe(sections or {".data": b"d"}, imports=["kindling.dll"]))
    for at, form, value in edits:
        struct.pack_into(form, data, at, value)
    return bytes(data) + more


def number(data: bytes, at: int, form: str = "<I") -> int:
    return int(struct.unpack_from(form, data, at)[0])


@pytest.mark.parametrize("chunk", [2, 6, 1 << 20])
def test_the_sum_word_by_word(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert pe_rewrite._CHUNK == 1 << 20
    monkeypatch.setattr(pe_rewrite, "_CHUNK", chunk)
    draw = random.Random(1)
    for data in (
        b"",
        b"\0" * 7,
        b"\x01",
        b"\xff" * 6,
        b"\xff" * 7,
        b"\xff\xff\0\0",
        b"\xfe\xff\x01",
        *map(draw.randbytes, (9, 50)),
    ):
        total = 0
        for at in range(0, len(data), 2):
            total += int.from_bytes(data[at : at + 2], "little")
            total = (total & 0xFFFF) + (total >> 16)
        assert checksum(io.BytesIO(data)) == total + len(data), data


def test_the_sum_is_over_a_field_that_holds_zero(tmp_path: Path) -> None:
    made = renamed(tmp_path, image((OPTIONAL + 64, "<I", 0x12345678)))
    empty = made[: OPTIONAL + 64] + bytes(4) + made[OPTIONAL + 68 :]
    assert number(made, OPTIONAL + 64) == checksum(io.BytesIO(empty))


@pytest.mark.parametrize(
    ("at", "value", "fine"), [(32, 512, 1), (36, 1, 1), (32, 1 << 20, 1), (32, 1 << 21, 0), (36, 1536, 0)]
)
def test_alignments(at: int, value: int, fine: int, tmp_path: Path) -> None:
    data = image((OPTIONAL + at, "<I", value))
    if fine:
        last = Pe(renamed(tmp_path, data)).sections[-1]
        assert last.name == ".rknames" and (last.address if at == 32 else last.offset) % value == 0
    else:
        with pytest.raises(Malformed, match=f"aligned to {value}"):
            renamed(tmp_path, data)


def test_the_header_of_the_new_section(tmp_path: Path) -> None:
    data = image((OPTIONAL + 8, "<I", 0x1234))
    made = renamed(tmp_path, data)
    last = Pe(made).sections[-1]
    head = struct.pack("<8sIIIIIIHHI", b".rknames", 8, 0x3000, 512, len(data), 0, 0, 0, 0, 0x40000040)
    assert made[TABLE + 80 : TABLE + 120] == head and last.offset == len(data)
    assert made[len(data) :] == b"new.dll\0".ljust(512, b"\0")
    assert number(made, OPTIONAL + 8) == 0x1234 + 512 and number(made, START + 6, "<H") == 3
    assert number(made, START + 12) == 0, "no symbols stay no symbols"


def test_only_two_directories_are_emptied(tmp_path: Path) -> None:
    edits = [(DIRECTORIES + 4 * word, "<I", 0xA0A0A0A0 + word) for word in range(2 * CERTIFICATE, 2 * CERTIFICATE + 4)]
    edits += [(DIRECTORIES + 4 * word, "<I", 0xB0B0B0B0) for word in range(2 * BOUND_IMPORT, 2 * BOUND_IMPORT + 4)]
    made = renamed(tmp_path, image(*edits))
    for index in (CERTIFICATE, BOUND_IMPORT):
        assert made[DIRECTORIES + 8 * index :][:8] == bytes(8)
        before = image(*edits)[DIRECTORIES + 8 * index + 8 :][:8]
        assert made[DIRECTORIES + 8 * index + 8 :][:8] == before and any(before)


@pytest.mark.parametrize(("place", "fine"), [(-1, False), (0, True), (7, True), (8, False), (39, False), (40, True)])
def test_bytes_behind_the_section_table(place: int, fine: bool, tmp_path: Path) -> None:
    """Bound imports of eight bytes may lie there and go; anything else would be overwritten. Behind the room for one
    header nothing is looked at."""
    behind = TABLE + 80
    bound = [(DIRECTORIES + 8 * BOUND_IMPORT, "<I", behind), (DIRECTORIES + 8 * BOUND_IMPORT + 4, "<I", 8)]
    if place < 0:  # one byte before them: they begin one later
        bound[0] = (bound[0][0], "<I", behind + 1)
    data = image(*bound, (behind + max(place, 0), "<B", 7))
    if fine:
        renamed(tmp_path, data)
    else:
        with pytest.raises(Malformed, match="of its own"):
            renamed(tmp_path, data)


@pytest.mark.parametrize(("offset", "length", "rest", "gone"), [
    (0, 16, 0, True), (0, 16, 8, True), (0, 16, 9, False), (1, 15, 0, True), (-1, 17, 0, False),
])  # fmt: skip
def test_a_signature_goes_where_it_is_the_last_part(
    offset: int, length: int, rest: int, gone: bool, tmp_path: Path
) -> None:
    plain = image()
    edits = [
        (DIRECTORIES + 8 * CERTIFICATE, "<I", len(plain) + offset),
        (DIRECTORIES + 8 * CERTIFICATE + 4, "<I", length),
    ]
    made = renamed(tmp_path, image(*edits, more=b"S" * 16 + b"r" * rest))
    kept = max(offset, 0) if gone else 16 + rest
    assert made[len(plain) + 512 :] == (b"S" * 16 + b"r" * rest)[:kept]


def test_no_signature_at_all(tmp_path: Path) -> None:
    assert renamed(tmp_path, image(more=b"tail")).endswith(b"tail")


def test_debug_rows_follow_what_they_point_to(tmp_path: Path) -> None:
    """Three rows and a half: the fourth is none. What lies behind the image moves, what lies in it stays."""
    rows = bytes(28 * 4) + b"e" * 40
    plain = make_pe({".data": rows}, imports=["kindling.dll"], more={DEBUG: (0x2000, 28 * 3 + 27)})
    data = bytearray(plain + b"T" * 32)
    at = Pe(bytes(data)).directory(DEBUG)
    assert at is not None
    behind = len(plain)
    for row, place in enumerate((behind + 4, behind + 8, at[0], behind + 12)):
        struct.pack_into("<I", data, at[0] + 28 * row + 24, place)
    made = renamed(tmp_path, bytes(data))
    places = [number(made, at[0] + 28 * row + 24) for row in range(4)]
    assert places == [behind + 4 + 512, behind + 8 + 512, at[0], behind + 12]


def test_tables_of_a_section_move_with_the_headers(tmp_path: Path) -> None:
    data = bytearray(make_pe({f".s{one}": b"%d" % one for one in range(16)}, imports=["kindling.dll"]))
    row = TABLE + 40 * 3
    for field in (24, 28):
        struct.pack_into("<I", data, row + field, 0x600 + field)
    made = renamed(tmp_path, bytes(data))
    assert [number(made, row + field) for field in (24, 28)] == [0x818, 0x81C]
    assert number(made, row + 20) == number(bytes(data), row + 20) + 512
    assert number(made, TABLE + 40 * 2 + 24) == 0, "none stays none"


@pytest.mark.parametrize(("headers", "fine"), [(0xE00, True), (0xE01, False)])
def test_headers_that_grow_end_before_the_first_section(headers: int, fine: bool, tmp_path: Path) -> None:
    """It is mapped at 0x1000, and they grow by 0x200."""
    data = bytearray(make_pe({f".s{one}": b"%d" % one for one in range(16)}, imports=["kindling.dll"]))
    struct.pack_into("<I", data, OPTIONAL + 60, headers)
    if fine:
        assert number(renamed(tmp_path, bytes(data)), OPTIONAL + 60) == 0x1000
    else:
        with pytest.raises(Malformed, match="its headers have no room for one section more"):
            renamed(tmp_path, bytes(data))


@pytest.mark.parametrize("count", [0, 4, 11, 12, 13])
def test_an_image_may_have_fewer_directories(count: int, tmp_path: Path) -> None:
    """Then nothing behind its section table can be bound imports, whatever stands where they would be named."""
    edits = [(OPTIONAL + 108, "<I", count), (DIRECTORIES + 8 * BOUND_IMPORT, "<I", TABLE + 80)]
    edits += [(DIRECTORIES + 8 * BOUND_IMPORT + 4, "<I", 8), (TABLE + 80, "<B", 7)]
    path = tmp_path / "x.dll"
    path.write_bytes(image(*edits))
    if count > BOUND_IMPORT:
        assert rename_imports(path, {"kindling.dll": "new.dll"}) == ("kindling.dll",)
    elif count:
        with pytest.raises(Malformed, match="of its own"):
            rename_imports(path, {"kindling.dll": "new.dll"})
    else:
        assert rename_imports(path, {"kindling.dll": "new.dll"}) == (), "it imports nothing then"


@pytest.mark.parametrize(("says", "cleared"), [(0x4F, False), (0x50, True), (0x70, True)])
def test_the_folder_that_is_searched(says: int, cleared: bool, tmp_path: Path) -> None:
    config = struct.pack("<I", says) + b"\x11" * 0x80
    data = make_pe({".data": config}, imports=["kindling.dll"], more={LOAD_CONFIG: (0x2000, 0x70)})
    at = Pe(data).directory(LOAD_CONFIG)
    assert at is not None
    made = renamed(tmp_path, data)[at[0] :][: len(config)]
    assert made == (config[:0x4E] + bytes(2) + config[0x50:] if cleared else config)
