"""Deflate entered in the middle: held against what zlib makes of the whole."""

from __future__ import annotations

import functools
import random
import zlib

import pytest

from rekindle.inspect.seek_list import LEAST_INFLATED, UNKNOWN, find_block, inflate_from


@functools.cache
def some_text(size: int, seed: int = 1) -> bytes:
    """Bytes below 0x80 that compress about as code does: words that come again, and numbers that do not."""
    draw = random.Random(seed)
    words = [bytes(draw.randrange(1, 127) for _ in range(draw.randrange(2, 9))) for _ in range(4000)]
    out = bytearray()
    while len(out) < size:
        out += draw.choice(words) if draw.random() < 0.7 else draw.randbytes(3).replace(b"\xff", b"\0")
    return bytes(byte & 0x7F for byte in out[:size])


def packed(data: bytes, level: int = 6) -> bytes:
    deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize("begin", [0.2, 0.5])
def test_what_is_known_is_right_and_the_end_is_known(begin: float) -> None:
    data = some_text(500_000)
    stored = packed(data)
    at = int(len(stored) * begin)
    piece = stored[at : at + (1 << 17)]
    block = find_block(piece)
    assert block is not None
    found = inflate_from(piece, block)
    assert len(found) > LEAST_INFLATED
    # Where it lies in the whole: a known run that occurs once there says it.
    runs = sorted(found.split(bytes([UNKNOWN])), key=len, reverse=True)
    run = next(run for run in runs[:100] if data.count(run) == found.count(run) == 1)
    start = data.find(run) - found.find(run)
    whole = data[start : start + len(found)]
    assert all(one in (other, UNKNOWN) for one, other in zip(found, whole, strict=True))
    known = sum(byte != UNKNOWN for byte in found)
    assert 0.2 < known / len(found) <= 1


def test_noise_is_no_block() -> None:
    assert find_block(random.Random(3).randbytes(1 << 15)) is None
    assert find_block(b"") is None
    assert find_block(b"\0" * 4000) is None


def test_too_little_behind_a_block_is_not_believed() -> None:
    stored = packed(some_text(60_000))
    assert find_block(stored[-200:]) is None
