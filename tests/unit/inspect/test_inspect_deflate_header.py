"""Where a block of deflate may begin, bit by bit, and what of it is known."""

from __future__ import annotations

import random
import zlib

import pytest

from rekindle.inspect import seek_list
from rekindle.inspect.seek_list import UNKNOWN, find_block, inflate_from

# Code lengths that leave nothing over: a half, a quarter, two eighths.
FOUR = (1, 2, 3, 3)
ALL = (1, 2, 3, 4, 5, 6, 7, *[0] * 11, 7)


def header(
    lengths: tuple[int, ...] = FOUR, *, last: int = 0, kind: int = 2, literals: int = 0, distances: int = 0,
    count: int | None = None,
) -> str:  # fmt: skip
    """Its bits as they come; numbers have their lowest bit first."""
    fields = [(last, 1), (kind, 2), (literals, 5), (distances, 5), ((len(lengths) if count is None else count) - 4, 4)]
    return "".join(f"{value:0{size}b}"[::-1] for value, size in [*fields, *((length, 3) for length in lengths)])


def packed(bits: str, size: int = 40) -> bytes:
    bits = bits.ljust(8 * size, "0")
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, 8 * size, 8))


def starts(bits: str, size: int = 40) -> list[tuple[int, int]]:
    return seek_list._possible_starts(packed(bits, size))


@pytest.mark.parametrize("phase", range(8))
@pytest.mark.parametrize("at", [0, 3])
def test_a_header_at_any_bit(phase: int, at: int) -> None:
    assert starts("0" * (8 * at + phase) + header()) == [(phase, at)]
    assert starts("0" * (8 * at + phase) + header(ALL)) == [(phase, at)]


def test_what_a_header_must_say() -> None:
    assert starts(header(literals=29)) == starts(header(distances=29)) == [(0, 0)]
    for wrong in (header(last=1), header(kind=1), header(kind=3), header(literals=30), header(distances=30)):
        assert (0, 0) not in starts(wrong)
    # One code too many, one too few, and a length that is not among those that are told.
    assert (0, 0) not in starts(header((1, 2, 3, 2))) and (0, 0) not in starts(header((1, 2, 3, 4)))
    assert (0, 0) in starts(header((*FOUR, 5), count=4)) and (0, 0) not in starts(header((*FOUR, 5)))
    assert (0, 0) not in starts(header(ALL, count=18)) and (0, 0) in starts(header((*ALL[:7], 7, *[0] * 10), count=18))


def test_headers_in_order_of_their_place() -> None:
    second = "0" * 5
    first = header().ljust(40, "0")
    assert starts(first + second + header()) == [(0, 0), (5, 5)]
    assert starts("0" * 6 + header().ljust(42, "0") + header()) == [(6, 0), (0, 6)]


def test_stretches_too_short_for_a_header() -> None:
    assert starts(header(), 17) == [(0, 0)] and starts(header(), 15) == []
    late = "0" * 24 + header()
    assert starts(late, 17) == [(0, 3)], "twelve bytes must follow"
    assert starts("0" * 32 + header(), 17) == [(0, 4)] and starts("0" * 40 + header(), 17) == []


def test_bits_are_taken_from_the_lowest() -> None:
    assert seek_list._shift_bits(b"\x81\x03", 0) == b"\x81\x03"
    assert seek_list._shift_bits(b"\x81\x03\xff", 1) == b"\xc0\x81"
    assert seek_list._shift_bits(b"\x80\x7f", 7) == b"\xff"
    assert seek_list._shift_bits(b"\x80", 7) == b""


def test_numbers_of_the_format() -> None:
    assert seek_list.LEAST_INFLATED == 16384 and seek_list.MOST_INFLATED == 64 * 1024 * 1024 and UNKNOWN == 0xFF
    assert [len(filling) for filling in seek_list._FILLINGS] == [32768, 32768]
    assert seek_list._FILLINGS[0][0] != seek_list._FILLINGS[1][0]


def stored(seed: int = 2, size: int = 3000) -> tuple[bytes, bytes]:
    """Text and its blocks behind a first one that it copies from."""
    draw = random.Random(seed)
    known = bytes(draw.choice(b"etaoin shrdlu") for _ in range(200))
    text = b"".join(
        known[draw.randrange(150) :][:20] + bytes(draw.choices(range(97, 123), k=9)) for _ in range(size // 29)
    )
    deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    before = deflater.compress(known) + deflater.flush(zlib.Z_FULL_FLUSH)
    whole = deflater.compress(text) + deflater.flush(zlib.Z_SYNC_FLUSH)
    after = deflater.compress(text) + deflater.flush(zlib.Z_SYNC_FLUSH)
    assert zlib.decompressobj(-15).decompress(before + whole + after) == known + text + text
    return text, whole + after


def test_the_first_block_with_enough_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text, piece = stored()
    monkeypatch.setattr(seek_list, "LEAST_INFLATED", 2 * len(text))
    assert find_block(piece) == (0, 0) and find_block(b"\0\0\0" + piece[:0] + piece) == (0, 3)
    monkeypatch.setattr(seek_list, "LEAST_INFLATED", 2 * len(text) + 1)
    assert find_block(piece) is None
    assert inflate_from(piece, (0, 0)) == text * 2


def test_what_is_copied_from_before_is_unknown() -> None:
    """New letters, then a text that was written before: of that only its length is known."""
    text, piece = stored()
    fresh = bytes(random.Random(5).choices(range(65, 91), k=600))
    deflater = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflater.compress(text)
    deflater.flush(zlib.Z_SYNC_FLUSH)
    later = deflater.compress(fresh + text) + deflater.flush(zlib.Z_SYNC_FLUSH)
    found = inflate_from(later, (0, 0))
    assert len(found) == len(fresh + text) and found[:600] == fresh
    assert found[600:].count(UNKNOWN) > 0.9 * len(text)
    assert all(one in (other, UNKNOWN) for one, other in zip(found, fresh + text, strict=True))
    assert inflate_from(piece, (0, 0)).count(UNKNOWN) == 0


def test_only_so_much_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    text, piece = stored()
    monkeypatch.setattr(seek_list, "MOST_INFLATED", 100)
    assert inflate_from(piece, (0, 0)) == text[:100]
    assert seek_list._decode(b"\xff" * 50, bytes(4)) == b""
