"""Images in fat binaries: what is stored is inflated to the last byte or to a limit, and what is written is plain."""

from __future__ import annotations

import random
import struct

import lz4.block
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from binaries import make_entry, make_fatbin
from gpu_libraries import make_cubin, ptx_entry
from rekindle.formats import fatbin
from rekindle.formats.fatbin import (
    FAMILY,
    LZ4,
    SPECIFIC,
    ZSTD,
    Entry,
    container_head,
    decode_head,
    decode_lz4,
    read_containers,
    read_image,
    read_options,
    set_host,
    write_entry,
)
from rekindle.formats.view import Malformed
from rekindle.model.arch import Sm

IMAGE = make_cubin(90, code=bytes(range(200)) * 4)


@pytest.fixture(params=["with lz4", "without"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without":
        monkeypatch.setattr(fatbin, "decompress", None)


def squeezed(data: bytes) -> bytes:
    return bytes(lz4.block.compress(data, store_size=False))


def plainly(data: bytes, limit: int) -> bytes:
    """Without the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fatbin, "decompress", None)
        return decode_lz4(data, limit)


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=300), st.integers(1, 400)), max_size=6), st.integers(0, 9000))
def test_every_beginning_of_a_block(parts: list[tuple[bytes, int]], limit: int) -> None:
    data = b"".join(piece * times for piece, times in parts)[:50_000]
    packed = squeezed(data)
    assert plainly(packed, len(data)) == data
    for most in (limit, len(data) + 1):
        assert plainly(packed, most) == decode_lz4(packed, most) == data[:most]


def test_what_lies_far_apart_and_is_long() -> None:
    noise = random.Random(3).randbytes(60_000)
    for data in (noise + noise[:5000] + bytes(70_000), noise[:300] * 100, bytes(range(256)) * 3):
        packed = squeezed(data)
        assert plainly(packed, len(data)) == data
        for most in (0, 1, 4, 15, 255, 256, 60_001, 65_536, len(data) - 1, len(data) + 9):
            assert plainly(packed, most) == decode_lz4(packed, most) == data[:most]


BLOCKS = [
    (b"\x30abc", b"abc"),
    (b"\x10a\1\0\x10b", b"aaaaab"),
    (b"\x1fa\1\0\0\x10b", b"a" * 20 + b"b"),
    (b"\x1fa\1\0\xff\3\x10b", b"a" * (20 + 258) + b"b"),
    (b"\x30abc\3\0\x10z", b"abcabcaz"),
    (b"\x31abc\2\0\x10z", b"abcbcbcbz"),
    (b"\x40abcd\4\0\x10z", b"abcdabcdz"),
    (b"\x50abcde\5\0\x10z", b"abcdeabcdz"),
    (b"\xf0\0" + b"n" * 15, b"n" * 15),
    (b"\xf0\xff\0" + b"n" * 270, b"n" * 270),
    (b"", b""),
]  # fmt: skip


@pytest.mark.parametrize(("block", "content"), BLOCKS)
def test_blocks_written_by_hand(either: None, block: bytes, content: bytes) -> None:
    assert decode_lz4(block, 1000) == decode_lz4(block, len(content)) == content


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (b"\x10a\0\0\x10b", b"a"),
        (b"\x10a\2\0\x10b", b"a"),
        (b"\x10a\0\1\x10b", b"a"),
        (b"\x00\1\0\x10b", b""),
        (b"\x10a\1", b"a"),
        (b"\x10a", b"a"),
        (b"\x50abc", b"abc"),
        (b"\x10a\1\0", b"aaaaa"),
        (b"\x1fa\1\0\xff", b"a" * (1 + 4 + 15 + 255)),
        (b"\xf0", b""),
        (b"\xf0\xff", b""),
    ],
    ids=["distance 0", "before the beginning", "far before it", "nothing to copy from", "half a distance", "literals",
         "literals cut off", "ends with a copy", "a length cut off", "no length", "half a length"],
)  # fmt: skip
def test_nonsense_ends_quietly(either: None, block: bytes, content: bytes) -> None:
    assert decode_lz4(block, 1000) == content
    assert decode_lz4(block, 1) == content[:1]


def test_a_distance_has_two_bytes(either: None) -> None:
    noise = random.Random(1).randbytes(700)
    block = b"\xf0\xff\xff\xaf" + noise + struct.pack("<H", 600) + b"\x10z"
    assert decode_lz4(block, 9999) == noise + noise[100:104] + b"z"


def test_the_head_of_an_image_that_begins_with_what_cannot_be_packed() -> None:
    """The length of such a beginning takes several bytes, also where less than it is wanted."""
    noise = random.Random(8).randbytes(3000)
    packed = squeezed(noise + bytes(500))
    assert decode_head(only(stored(packed, 3500, LZ4)), packed, 64) == noise[:64]


@given(st.binary(max_size=60), st.integers(0, 300))
def test_any_bytes_give_at_most_so_many(block: bytes, limit: int) -> None:
    assert len(plainly(block, limit)) <= limit
    assert plainly(block, limit) == plainly(block, 300)[:limit]


# Entries


def only(data: bytes) -> Entry:
    [container] = read_containers(data, 0, len(data))
    [entry] = container.entries
    return entry


def stored(body: bytes, size: int, flag: int, *, claimed: int | None = None, header: int = 64, kind: int = 2) -> bytes:
    """A container with one entry, whose stored bytes are padded with ones."""
    entry = bytearray(make_entry(kind, 90, 0x11 | flag, payload=body + b"\xff" * (-len(body) % 8), header=header))
    struct.pack_into("<I", entry, 16, len(body) if claimed is None else claimed)
    if header >= 64:
        struct.pack_into("<Q", entry, 56, size)
    return make_fatbin([bytes(entry)])


PACKED = {LZ4: squeezed(IMAGE), ZSTD: zstandard.compress(IMAGE)}


@pytest.mark.parametrize("flag", PACKED)
@pytest.mark.parametrize("header", [64, 72, 120])
def test_a_compressed_image_whatever_follows(flag: int, header: int) -> None:
    data = stored(PACKED[flag], len(IMAGE), flag, header=header)
    assert read_image(data + b"\xff" * 20, only(data)) == IMAGE
    behind = b"\0" * 24 + data
    [container] = read_containers(behind, 0, len(behind))
    assert read_image(behind, container.entries[0]) == IMAGE


@pytest.mark.parametrize("flag", PACKED)
def test_an_entry_that_does_not_say_what_is_stored(flag: int) -> None:
    """Then it is all of it; zeros behind a block are none of its bytes."""
    body = PACKED[flag] if flag == ZSTD else PACKED[flag] + bytes(-len(PACKED[flag]) % 8)
    data = stored(body, len(IMAGE), flag, claimed=0)
    assert read_image(data, only(data)) == IMAGE


@pytest.mark.parametrize("flag", PACKED)
def test_an_image_has_the_size_it_says(flag: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fatbin.MAX_IMAGE == 256 * 1024 * 1024
    monkeypatch.setattr(fatbin, "MAX_IMAGE", len(IMAGE))
    data = stored(PACKED[flag], len(IMAGE), flag)
    assert read_image(data, only(data)) == IMAGE
    one_less = stored(PACKED[flag], 1, flag)
    assert read_image(one_less, only(one_less)) == IMAGE[:1]
    for size in (0, len(IMAGE) + 1):
        lie = stored(PACKED[flag], size, flag)
        with pytest.raises(Malformed, match=f"k: the entry at offset 16 claims an image of {size} bytes"):
            read_image(lie, only(lie), "k")
    entry = stored(PACKED[flag], len(IMAGE), flag)[16:]
    short = make_fatbin([entry[:4] + struct.pack("<IQ", 63, len(entry) - 63) + entry[16:]])
    with pytest.raises(Malformed, match="fatbin: the entry at offset 16 claims an image of 0 bytes"):
        read_image(short, only(short))
    monkeypatch.setattr(fatbin, "MAX_IMAGE", 1 << 20)
    more = stored(PACKED[flag], len(IMAGE) + 1, flag)
    said = rf"k: the image at offset 16 is damaged \({len(IMAGE)} of {len(IMAGE) + 1} bytes\)"
    with pytest.raises(Malformed, match=said):
        read_image(more, only(more), "k")


@pytest.mark.parametrize("flag", PACKED)
def test_compressed_ptx_ends_with_its_text(flag: int) -> None:
    text = b".version 8.0\n"
    body = squeezed(text + b"\0\0") if flag == LZ4 else zstandard.compress(text + b"\0\0")
    for kind, image in ((1, text), (2, text + b"\0\0"), (8, text + b"\0\0")):
        data = stored(body, len(text) + 2, flag, kind=kind)
        assert read_image(data, only(data)) == image


def test_the_beginning_of_an_image() -> None:
    entry = only(stored(IMAGE, 0, 0))
    assert decode_head(entry, IMAGE, 64) == IMAGE[:64]
    for flag, packed in PACKED.items():
        entry = only(stored(packed, len(IMAGE), flag))
        assert decode_head(entry, packed, 64) == IMAGE[:64]
        assert decode_head(entry, packed, 1 << 20) == IMAGE
        assert decode_head(entry, b"\0no stream", 64) == b""


OPTIONS = b"-O2 -fmad=false\0-behind"


@pytest.mark.parametrize(
    ("where", "size", "told"),
    [
        (72, len(OPTIONS), ("-O2", "-fmad=false")),
        (72, 7, ("-O2", "-fm")),
        (72, 0, ()),
        (76, 3, ("-fm",)),
        (71, 3, ()),
        (96, 0, ()),
        (97, 0, ()),
        (94, 2, ("d",)),
        (94, 3, ()),
        (72, 25, ()),
        (72, 24, ("-O2", "-fmad=false")),
    ],
)
def test_options_lie_in_the_header(where: int, size: int, told: tuple[str, ...]) -> None:
    """Behind its fields and before the image: from 72 to 96 here."""
    data = bytearray(make_fatbin([ptx_entry(options=OPTIONS)]))
    assert only(bytes(data)).header == 96
    struct.pack_into("<II", data, 16 + 64, where, size)
    assert read_options(bytes(data), only(bytes(data))) == told


@pytest.mark.parametrize(("kind", "header", "told"), [(1, 72, True), (1, 71, False), (1, 64, False), (2, 72, False)])
def test_options_are_of_ptx_that_has_room_for_them(kind: int, header: int, told: bool) -> None:
    entry = bytearray(make_entry(kind, 90, payload=b"-O2 -G\0\0" * 2, header=72))
    struct.pack_into("<IQ", entry, 4, header, len(entry) - header)
    struct.pack_into("<II", entry, 64, 72, 0)
    assert read_options(make_fatbin([bytes(entry)]), only(make_fatbin([bytes(entry)]))) == ()
    wide = bytearray(make_entry(kind, 90, payload=b"", header=80))
    struct.pack_into("<II", wide, 64, 72, 8)
    wide[72:80] = b"-O2 \xff\0-G"
    data = make_fatbin([bytes(wide)])
    assert read_options(data, only(data)) == (("-O2", "�") if kind == 1 else ())


def test_ptx_at_the_very_end_of_a_file_has_no_options() -> None:
    data = make_fatbin([make_entry(1, 90, payload=b"")])
    assert len(data) == 16 + 64 and read_options(data, only(data)) == ()


FIELDS = "<HHIQIIHHIIIQQQ"


@pytest.mark.parametrize(("arch", "flags"), [(Sm(9, 0), 0x11), (Sm(9, 0, "a"), 0x11 | SPECIFIC),
                                             (Sm(12, 0, "f"), 0x11 | FAMILY)])  # fmt: skip
@pytest.mark.parametrize("more", range(9))
def test_every_field_of_what_is_written(arch: Sm, flags: int, more: int) -> None:
    image = IMAGE + b"\1" * more
    written = write_entry(image, arch)
    size = -(-len(image) // 8) * 8
    assert struct.unpack_from(FIELDS, written) == (2, 0x101, 64, size, 0, 0, 8, 1, arch.number, 0, 0, flags, 0, 0)
    assert written[64:] == image.ljust(size, b"\0")
    packed = write_entry(image, arch, compression="zstd")
    fields = struct.unpack_from(FIELDS, packed)
    body = zstandard.ZstdDecompressor().decompressobj()
    assert body.decompress(packed[64:]) == image and len(packed) % 8 == 0
    stored_size = len(packed) - 64 - len(body.unused_data)
    assert fields[3:5] == (len(packed) - 64, stored_size) and len(body.unused_data) < 8
    assert fields == (2, 0x101, 64, *fields[3:5], 0, 8, 1, arch.number, 0, 0, flags | ZSTD, 0, len(image))
    data = container_head(len(packed)) + packed
    assert read_image(data, only(data)) == image


@pytest.mark.parametrize("own", [0x11, 0x21, 0x41, 0x71, 0x11 | ZSTD | SPECIFIC])
@pytest.mark.parametrize("beside", [0x11, 0x20, 0x41, 0x7F | LZ4, 0])
def test_only_the_host_is_taken_from_the_neighbour(own: int, beside: int) -> None:
    entry = make_entry(2, 90, own, payload=IMAGE)
    assert set_host(entry, beside) == make_entry(2, 90, own & ~0x70 | beside & 0x70, payload=IMAGE)


@pytest.mark.parametrize("size", [0, 8, 1 << 40])
def test_the_head_of_a_container(size: int) -> None:
    assert container_head(size) == struct.pack("<IHHQ", 0xBA55ED50, 1, 16, size)
