"""Wheels and libraries of strangers before graft: whatever is in them, a refusal or a note, never a crash or a hang."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binaries import make_entry
from gpu_libraries import make_cubin, make_gpu_library, ptx_entry
from rekindle import api
from rekindle.errors import BadInput, RekindleError
from rekindle.facts import load_facts
from rekindle.formats.elf import Elf
from rekindle.formats.elf_move import pointers_into
from rekindle.formats.elf_string import replace_text
from rekindle.formats.fatbin import ZSTD, write_entry
from rekindle.graft.library import GpuLibrary
from rekindle.graft.nvidia import PtxWay
from rekindle.model.arch import Sm

CARD = Sm(12, 0)
GOOD = make_gpu_library(
    [[make_entry(2, 80, payload=make_cubin(unit="91c5f4d9_8_First_cu_54a8c5b0")), ptx_entry(80, options=b"-O2\0")]] * 2,
    between=0,
)
NEW = write_entry(make_cubin(120), CARD)


def _try(data: bytes, folder: Path) -> None:
    """All that graft does with a library."""
    path = folder / "lib.so"
    path.write_bytes(data)
    try:
        with GpuLibrary(path, "lib.so") as library:
            library.check_pointers()
            PtxWay(card=CARD, arch=CARD, ptxas="ptxas", facts=load_facts()).survey(library)
            library.write_with({0: [NEW]}, folder / "out.so")
        with GpuLibrary(folder / "out.so", "out.so") as library:
            assert any(entry.arch == CARD for entry in library.units[0].sass)
    except RekindleError as error:
        assert "\n" not in error.message


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=6))
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_changed_bytes(tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(GOOD)
    for at, value in changes:
        data[at] = value
    _try(bytes(data), tmp_path)


@given(st.integers(0, 64 + 56 * 4 - 8), st.sampled_from([0, 1, 0xFFFF, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1]))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_numbers_in_the_headers(tmp_path: Path, at: int, value: int) -> None:
    data = bytearray(GOOD)
    struct.pack_into("<Q", data, at, value)
    _try(bytes(data), tmp_path)


@given(st.integers(0, len(GOOD)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_cut_short(tmp_path: Path, size: int) -> None:
    _try(GOOD[:size], tmp_path)


def test_a_wheel_without_metadata_is_refused_in_one_line(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.12.1-cp312-cp312-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch/__init__.py", "")
    with pytest.raises(BadInput, match="no whole wheel"):
        api.graft(str(wheel), gpu="sm_90", workspace=tmp_path / "w")


def test_an_image_that_claims_too_much_is_not_unpacked(tmp_path: Path) -> None:
    entry = bytearray(make_entry(2, 80, 0x11 | ZSTD, payload=b"(\xb5/\xfd" + bytes(60)))
    struct.pack_into("<Q", entry, 56, 1 << 40)
    path = tmp_path / "lib.so"
    path.write_bytes(make_gpu_library([[bytes(entry)]]))
    with GpuLibrary(path, "lib.so") as library, pytest.raises(RekindleError, match="claims an image"):
        library.module(library.units[0])


@given(st.binary(max_size=400))
def test_any_bytes_as_a_library(data: bytes) -> None:
    try:
        elf = Elf(b"\x7fELF\x02\x01\x01" + data)
        for section in elf.sections:
            pointers_into(elf, section)
        replace_text(elf, 0, b"a", b"b")
    except RekindleError as error:
        assert error.message


def test_writing_needs_no_more_memory_than_a_chunk() -> None:
    """Content of the old file goes over in pieces: only what is new is held."""

    class Counting(io.BytesIO):
        largest = 0

        def write(self, data: object) -> int:
            self.largest = max(self.largest, len(bytes(data)))  # type: ignore[call-overload]
            return super().write(data)  # type: ignore[arg-type]

    from rekindle.formats.elf_move import SectionPiece, move_section

    data = make_gpu_library([[make_entry(2, 80, payload=bytes(5 << 20))]])
    elf = Elf(data)
    section = elf.section(".nv_fatbin")
    assert section is not None
    out = Counting()
    move_section(elf, section, [SectionPiece(section.address, ((section.offset, section.size),))], out)
    assert out.largest <= 1 << 20
