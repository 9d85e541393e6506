"""Both inflaters give the same bytes, and take strangers' bytes without surprise."""

from __future__ import annotations

import importlib
import sys
import zlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.formats import zip_directory as inflate


@pytest.fixture(scope="module")
def plain() -> ModuleType:
    """The same module as it is where zlib-ng is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "zlib_ng.zlib_ng", None)
        patch.delitem(sys.modules, "rekindle.formats.zip_directory")
        module = importlib.import_module("rekindle.formats.zip_directory")
    sys.modules["rekindle.formats.zip_directory"] = inflate
    return module


def _packed(data: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflated(module: ModuleType, packed: bytes, piece: int, most: int) -> bytes:
    inflater, out = module.raw_inflater(), b""
    for at in range(0, len(packed), piece):
        raw = packed[at : at + piece]
        while raw and not inflater.eof:
            got = inflater.decompress(raw, most)
            assert len(got) <= most
            out += got
            raw = inflater.unconsumed_tail
    while tail := inflater.decompress(inflater.unconsumed_tail, most):
        out += tail
    return out


def test_without_zlib_ng_it_is_zlib(plain: ModuleType) -> None:
    assert plain.ENGINE == "zlib"


@given(data=st.binary(max_size=3000), repeat=st.integers(1, 50), piece=st.integers(1, 999), most=st.integers(1, 5000))
def test_both_give_the_same_bytes(plain: ModuleType, data: bytes, repeat: int, piece: int, most: int) -> None:
    whole = data * repeat
    packed = _packed(whole)
    for module in (inflate, plain):
        assert _inflated(module, packed, piece, most) == whole
        assert module.crc32(whole, 7) == zlib.crc32(whole, 7)


@given(garbage=st.binary(min_size=1, max_size=2000))
def test_garbage_is_damaged_or_bytes(plain: ModuleType, garbage: bytes) -> None:
    told: list[bytes | None] = []
    for module in (inflate, plain):
        try:
            told.append(_inflated(module, garbage, 256, 1 << 16))
        except module.Damaged:
            told.append(None)
    assert told[0] == told[1]
