"""Whose kernels a container holds: the names in one image, however it is stored."""

from __future__ import annotations

from collections import Counter

import pytest
import zstandard

from rekindle.formats.fatbin import LZ4, ZSTD, Container, Entry, decode_lz4
from rekindle.inspect.gpu import GpuSurvey, GpuTarget, kernel_names, owners_of
from rekindle.inspect.origin import describe_library
from rekindle.model.arch import Sm


def entry(data: bytes, flags: int = 0, kind: str = "sass", offset: int = 0, header: int = 0) -> Entry:
    return Entry(kind, 80, "", len(data), flags, (1, 0), offset, header, len(data))


def test_names_begin_after_the_header() -> None:
    body = b"\0.text.magma_a\0.text._ZN2at1fE\0.text.9odd\0"
    assert kernel_names(b"xxxx" + body, entry(body, offset=1, header=3)) == ["magma_a", "_ZN2at1fE"]
    assert kernel_names(b".text.no" + body, entry(body, offset=5, header=3)) == ["magma_a", "_ZN2at1fE"]
    assert kernel_names(body + b".text.behind", entry(body)) == ["magma_a", "_ZN2at1fE"]


def test_only_the_head_is_read() -> None:
    name = b".text.abc\0"
    fits = b"\0" * ((64 << 10) - len(name)) + name  # so much of an image is read
    assert kernel_names(fits, entry(fits)) == ["abc"]
    assert kernel_names(b"\0\0" + fits, entry(b"\0\0" + fits)) == ["ab"]
    packed = zstandard.ZstdCompressor().compress(fits)
    assert kernel_names(packed, entry(packed, ZSTD)) == ["abc"]
    later = zstandard.ZstdCompressor().compress(b"\0\0" + fits)
    assert kernel_names(later, entry(later, ZSTD)) == ["ab"]
    assert kernel_names(b"nonsense", entry(b"nonsense", ZSTD)) == []


def test_the_smallest_image_tells() -> None:
    big, small = b".text.cusparse_x\0" * 3, b".text.magma_x\0"
    data = big + small + b".text.nccl\0"
    rows = (entry(big), entry(small, offset=len(big)), entry(b".", kind="ptx", offset=len(big + small)))
    assert owners_of(data, Container(0, len(data), rows)) == ("MAGMA",)
    assert owners_of(data, Container(0, len(data), rows[2:])) == ()
    three = b".text.cudnn_a\0.text.cudnn_b\0.text.magma\0.text.magma\0.text.magma\0.text.cusolver\0.text.odd\0"
    assert owners_of(three, Container(0, len(three), (entry(three),))) == ("MAGMA", "cuDNN")


def test_the_owners_seen_most_often() -> None:
    key = frozenset({GpuTarget("sass", Sm.from_number(90))})
    owners = [("a", "b"), ("b", "c"), ("b", "c"), ("d",), ("a", "c"), ("c",)]
    shown = [
        describe_library(GpuSurvey("a.so", sets=Counter({key: 6}), owners=rows), frozenset()).sets[0].kernels
        for rows in ({key: owners}, {})
    ]
    assert shown == [("c", "b", "a"), ()]


@pytest.mark.parametrize(
    ("packed", "plain"),
    [
        ("30 616263", b"abc"),
        ("30 616263 0300", b"abcabca"),  # a match of four, three back
        ("31 616263 0300 10 78", b"abcabcab" + b"x"),
        ("10 61 0100 10 62", b"aaaaa" + b"b"),
        ("40 61626364 0400 10 65", b"abcdabcde"),
        ("50 6162636465 0400 10 66", b"abcdebcde" + b"f"),
        ("1f 61 0100 00 10 62", b"a" * 20 + b"b"),
        ("1f 61 0100 ff01 10 62", b"a" * (1 + 4 + 15 + 256) + b"b"),
        ("f0 00" + "61" * 15, b"a" * 15),
        ("f0 02" + "61" * 17, b"a" * 17),
        ("f0 ff00" + "61" * 270, b"a" * 270),
        ("10 61 0000 10 62", b"a"),  # no distance
        ("10 61 0200 10 62", b"a"),  # before the beginning
        ("10 61 01", b"a"),
        ("10 61 0001 10 62", b"a"),  # the second byte of a distance counts
        ("10 61 1f01 10 62", b"a"),  # before the beginning, and the first byte alone would not be
        ("f0 ff" + "ff" + "f0" + "61" * 765 + "0001 10 62", b"a" * 765 + b"a" * 4 + b"b"),  # 256 back
        ("f0", b""),  # ends where the length goes on
        ("1f 61 0100", b"a" * 20),
        ("", b""),
    ],
)
def test_lz4_blocks(packed: str, plain: bytes) -> None:
    data = bytes.fromhex(packed)
    assert decode_lz4(data, 1 << 16) == plain


def test_lz4_stops_at_the_limit() -> None:
    data = bytes.fromhex("1f 61 0100 ffffffff00 10 62")
    assert decode_lz4(data, 100) == b"a" * 100
    assert decode_lz4(data, 1) == b"a"
    body = b".text.magma\0"
    stored = bytes([len(body) << 4]) + body
    assert kernel_names(stored, entry(stored, LZ4)) == ["magma"]
    far = b"x" * 300
    block = bytes.fromhex("f0ff1e") + far + bytes.fromhex("2c01") + bytes.fromhex("1062")
    assert decode_lz4(block, 1 << 16) == far + b"xxxx" + b"b"


def test_the_package_lz4_gives_what_our_own_decoder_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    block = pytest.importorskip("lz4.block")
    plain = bytes(range(256)) * 40 + b"cubin" * 999 + bytes(5000)
    packed = block.compress(plain, store_size=False)
    for limit in (len(plain), len(plain) - 1, 100, len(plain) + 7):
        fast = decode_lz4(packed, limit)
        monkeypatch.setattr("rekindle.formats.fatbin.decompress", None)
        assert fast == decode_lz4(packed, limit) == plain[:limit]
        monkeypatch.undo()
    assert decode_lz4(packed[:-9], len(plain)) == plain[: len(decode_lz4(packed[:-9], len(plain)))]
