"""Offload bundles: plain and compressed in every version are read alike; sizes that lie are refused."""

from __future__ import annotations

import re
import struct
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gpu_libraries import make_code_object
from rekindle.errors import RekindleError
from rekindle.formats.offload import read_bundles, read_object_face
from rekindle.formats.view import Malformed

TARGETS = ["gfx900", "gfx90a:xnack+", "gfx1030"]


def plain(targets: list[str]) -> bytes:
    ids = ["host-x86_64-unknown-linux--", *(f"hipv4-amdgcn-amd-amdhsa--{name}" for name in targets)]
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for number, name in enumerate(ids):
        size = 64 if number else 0
        table += struct.pack("<QQQ", 4096 + 64 * (number - 1) if number else 4096, size, len(name)) + name.encode()
    return table.ljust(4096, b"\0") + bytes(range(64)) * len(targets)


def packed(version: int, method: str, targets: list[str]) -> bytes:
    body = plain(targets)
    squeezed = zlib.compress(body) if method == "zlib" else zstandard.compress(body)
    sizes = {
        1: struct.pack("<I", len(body)),
        2: struct.pack("<II", 24 + len(squeezed), len(body)),
        3: struct.pack("<QQ", 32 + len(squeezed), len(body)),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, method == "zstd") + sizes + b"\0" * 8 + squeezed


def page(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4096)


def targets_of(data: bytes) -> list[list[str]]:
    return [[o.target for o in b.objects if o.target] for b in read_bundles(data, 0, len(data))]


def test_plain() -> None:
    assert targets_of(page(plain(TARGETS)) + page(plain(["gfx803"]))) == [TARGETS, ["gfx803"]]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_compressed(version: int, method: str) -> None:
    one = page(packed(version, method, TARGETS))
    assert targets_of(one + one) == [TARGETS, TARGETS]
    [first, _] = read_bundles(one + one, 0, 2 * len(one))
    assert first.form == f"CCOB {version} {method}"


def test_compressed_bundles_without_padding_between() -> None:
    assert targets_of(packed(3, "zstd", TARGETS) + packed(2, "zlib", ["gfx942"])) == [TARGETS, ["gfx942"]]


def test_old_and_generic_names() -> None:
    data = plain(["gfx11-generic"]).replace(b"hipv4-amdgcn-amd-amdhsa--gfx11", b"hip00-amdgcn-amd-amdhsa--gfx11")
    assert targets_of(data) == [["gfx11-generic"]]


@pytest.mark.parametrize(
    "broken", [b"CCOB\x09\x00", b"CCOB\x03\x00\x01\x00" + b"\xff" * 40, packed(3, "zstd", TARGETS)[:60]]
)
def test_lying_headers(broken: bytes) -> None:
    with pytest.raises(Malformed):
        targets_of(broken)


def test_lying_count() -> None:
    with pytest.raises(Malformed, match="claims"):
        targets_of(b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1 << 60) + b"\0" * 100)


GOOD = [plain(TARGETS), packed(1, "zlib", TARGETS), packed(2, "zstd", TARGETS), packed(3, "zstd", TARGETS)]


@given(st.sampled_from(GOOD), st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=6))
def test_any_bytes_changed_never_crash(good: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(good)
    for at, value in changes:
        if at < len(data):
            data[at] = value
    try:
        found = targets_of(bytes(data))
    except RekindleError as error:
        assert str(error)
    else:
        assert all(name for one in found for name in one)


@pytest.mark.parametrize("field", [".offset", ".size", ".value_kind", ".kernarg_segment_size", ".name"])
def test_a_kernel_without_what_the_standard_demands_is_refused(field: str) -> None:
    """Also where nothing here reads the field: a list that lacks it is of another form."""
    renamed = field[:-1] + "?"
    with pytest.raises(Malformed, match=f"list of kernels cannot be read \\('{re.escape(field)}'\\)"):
        read_object_face(make_code_object().replace(field.encode(), renamed.encode()))
