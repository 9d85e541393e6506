"""Bounded reading of Zstandard, held against the other implementation (zstandard)."""

from __future__ import annotations

import random

import pytest
import zstandard

from rekindle.formats.zstd import ZstdError, read_zstd, write_zstd

TEXT = random.Random(7).randbytes(50_000) * 8


def test_both_implementations_read_each_other() -> None:
    assert read_zstd(zstandard.compress(TEXT), len(TEXT)) == TEXT
    assert zstandard.decompress(write_zstd(TEXT)) == TEXT


@pytest.mark.parametrize("size", [1, 1000, 70_000, len(TEXT), len(TEXT) + 9])
def test_no_more_is_read_than_was_asked_for(size: int) -> None:
    assert read_zstd(zstandard.compress(TEXT), size) == TEXT[:size]


def test_what_stands_before_the_damage_is_given() -> None:
    whole = zstandard.compress(random.Random(3).randbytes(400_000))
    start = read_zstd(whole[:200_000] + b"\xff" * 200_000, 400_000)
    assert 0 < len(start) < 400_000
    assert len(read_zstd(whole[:200_000], 400_000)) < 400_000


def test_a_stream_that_gives_nothing_is_refused() -> None:
    with pytest.raises(ZstdError):
        read_zstd(b"no stream at all", 10)


def test_a_window_larger_than_allowed_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=28, write_content_size=False)
    packed = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    stream = packed.compress(TEXT) + packed.flush()
    with pytest.raises(ZstdError):
        read_zstd(stream, 10)
    assert read_zstd(stream, 10, window_log=31) == TEXT[:10]
