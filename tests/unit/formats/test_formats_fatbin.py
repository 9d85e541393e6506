"""Fat binaries: every target is told apart by its header alone; sizes that lie are refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binaries import FAMILY, LZ4, SPECIFIC, ZSTD, make_entry, make_fatbin
from rekindle.errors import RekindleError
from rekindle.formats.fatbin import read_containers
from rekindle.formats.view import Malformed


def names(data: bytes) -> list[list[str]]:
    return [[entry.name for entry in container.entries] for container in read_containers(data, 0, len(data))]


def test_targets_and_suffixes() -> None:
    data = make_fatbin(
        [make_entry(2, 35), make_entry(2, 90, 0x11 | SPECIFIC), make_entry(2, 103, 0x11 | FAMILY, header=120)],
        [make_entry(2, 120), make_entry(1, 120)],
    )
    assert names(data) == [["sm_35", "sm_90a", "sm_103f"], ["sm_120", "compute_120"]]


@pytest.mark.parametrize(("flags", "word"), [(0x11, "none"), (0x11 | LZ4, "lz4"), (0x41 | ZSTD, "zstd")])
def test_compression(flags: int, word: str) -> None:
    data = make_fatbin([make_entry(2, 86, flags)])
    [container] = read_containers(data, 0, len(data))
    assert container.entries[0].compression == word


def test_padding_between_containers() -> None:
    one = make_fatbin([make_entry(2, 50)])
    assert names(b"\0" * 24 + one + b"\0" * 40 + one + b"\0" * 100) == [["sm_50"], ["sm_50"]]


def test_foreign_bytes_before_a_container_are_passed_over() -> None:
    one = make_fatbin([make_entry(2, 50)])
    assert names(b"junk" * 1000 + one) == [["sm_50"]]


@pytest.mark.parametrize("size", [1 << 63, 1 << 40, 1000])
def test_lying_container_size(size: int) -> None:
    data = bytearray(make_fatbin([make_entry(2, 50)]))
    struct.pack_into("<Q", data, 8, size)
    with pytest.raises(Malformed, match="claims"):
        names(bytes(data))


@pytest.mark.parametrize(("at", "form", "value"), [(4, "<I", 0), (4, "<I", 5000), (8, "<Q", 1 << 62), (28, "<I", 7)])
def test_lying_entry(at: int, form: str, value: int) -> None:
    data = bytearray(make_fatbin([make_entry(2, 50)]))
    struct.pack_into(form, data, 16 + at, value)
    with pytest.raises(Malformed):
        names(bytes(data))


def test_section_outside_the_file() -> None:
    with pytest.raises(Malformed):
        list(read_containers(b"\0" * 10, 5, 10))


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    try:
        found = names(b"\x50\xed\x55\xba\x01\x00\x10\x00" + data)
    except RekindleError:
        return
    assert all(name.startswith(("sm_", "compute_")) for one in found for name in one)


@given(st.lists(st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(20, 199)), min_size=1, max_size=8), max_size=5))
def test_what_is_written_is_read(containers: list[list[tuple[int, int]]]) -> None:
    data = make_fatbin(*([make_entry(kind, arch) for kind, arch in one] for one in containers))
    expected = [[("sm_" if kind == 2 else "compute_") + str(arch) for kind, arch in one] for one in containers]
    assert names(data) == expected
