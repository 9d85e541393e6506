"""ELF: what the loader needs is read right, and a lie is an error, not a crash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binaries import make_elf
from rekindle.errors import RekindleError
from rekindle.formats.elf import Elf
from rekindle.formats.view import Malformed

GOOD = make_elf(
    {".nv_fatbin": b"x" * 40, ".text": b"\x90" * 32},
    needed=["libc.so.6", "libcudart.so.12"],
    soname="libdemo.so",
    rpath="$ORIGIN:$ORIGIN/../nvidia/lib",
    versions={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.28"], "libstdc++.so.6": ["GLIBCXX_3.4.25"]},
)


def read_everything(data: bytes) -> None:
    elf = Elf(data)
    _ = elf.sections, elf.segments, elf.dynamic, elf.needed, elf.soname, elf.rpath, elf.version_needs
    for section in elf.sections:
        elf.content(section)


def test_links_and_versions() -> None:
    elf = Elf(GOOD)
    assert elf.machine == "x86_64"
    assert elf.needed == ("libc.so.6", "libcudart.so.12")
    assert elf.soname == "libdemo.so"
    assert elf.rpath == ("$ORIGIN", "$ORIGIN/../nvidia/lib")
    assert {need.library: need.versions for need in elf.version_needs} == {
        "libc.so.6": ("GLIBC_2.17", "GLIBC_2.28"),
        "libstdc++.so.6": ("GLIBCXX_3.4.25",),
    }


def test_sections() -> None:
    elf = Elf(GOOD)
    section = elf.section(".nv_fatbin")
    assert section is not None
    offset, size = elf.content(section)
    assert GOOD[offset : offset + size] == b"x" * 40


@pytest.mark.parametrize("size", [0, 3, 15, 40, 63, 100, 200, len(GOOD) - 10])
def test_truncated_is_an_error(size: int) -> None:
    with pytest.raises(Malformed):
        read_everything(GOOD[:size])


def test_lying_section_offset() -> None:
    broken = bytearray(GOOD)
    broken[0x28:0x30] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(Malformed, match="sections"):
        _ = Elf(bytes(broken)).sections


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=12))
def test_any_bytes_changed_never_crash(changes: list[tuple[int, int]]) -> None:
    broken = bytearray(GOOD)
    for at, value in changes:
        broken[at] = value
    try:
        read_everything(bytes(broken))
    except RekindleError as error:
        assert str(error)  # said in words; anything else is a crash


def test_an_address_no_cpu_has() -> None:
    """Found by fuzzing: arithmetic on it overflowed 64 bits."""
    elf = Elf(GOOD)
    broken = bytearray(GOOD)
    table = int.from_bytes(GOOD[0x28:0x30], "little")
    index = next(i for i, section in enumerate(elf.sections) if section.name == ".text")
    broken[table + 64 * index + 16 : table + 64 * index + 24] = b"\xff" * 8
    with pytest.raises(Malformed, match="beyond"):
        _ = Elf(bytes(broken)).sections
