"""Containers of a Windows library in a section of their own behind the others: pointers follow, nothing else moves."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from binaries import make_entry
from gpu_libraries import make_cubin, make_gpu_dll, write_library
from rekindle.formats.fatbin import write_entry
from rekindle.formats.pe import Pe
from rekindle.formats.pe_move import OLD_NAME, image_pointers_into
from rekindle.formats.view import Malformed
from rekindle.graft.library import GpuLibrary
from rekindle.model.arch import Sm

NEW = write_entry(make_cubin(120), Sm(12, 0))


def _library(tmp_path: Path, data: bytes | None = None) -> GpuLibrary:
    made = data or make_gpu_dll([[make_entry(2, 80, payload=make_cubin(80))] for _ in range(3)])
    return GpuLibrary(write_library(tmp_path / "torch_cuda.dll", made), "torch/lib/torch_cuda.dll")


def test_new_entries_stand_behind_the_old_and_pointers_lead_there(tmp_path: Path) -> None:
    with _library(tmp_path) as library:
        library.check_pointers()
        old = [library.image(unit.sass[0]) for unit in library.units]
        library.write_with({0: [NEW], 2: [NEW, NEW]}, tmp_path / "new.dll")
    with GpuLibrary(tmp_path / "new.dll", "new.dll") as written:
        written.check_pointers()
        names = [[entry.name for entry in unit.container.entries] for unit in written.units]
        assert names == [["sm_80", "sm_120"], ["sm_80"], ["sm_80", "sm_120", "sm_120"]]
        assert [written.image(unit.sass[0]) for unit in written.units] == old
        assert written.image(written.units[2].sass[1]) == make_cubin(120)


def test_everything_else_stays_where_it_was(tmp_path: Path) -> None:
    with _library(tmp_path) as library:
        library.write_with({0: [NEW]}, tmp_path / "new.dll")
    before, after = Pe((tmp_path / "torch_cuda.dll").read_bytes()), Pe((tmp_path / "new.dll").read_bytes())
    assert [section.address for section in after.sections[:-1]] == [section.address for section in before.sections]
    assert after.sections[-1].name == ".nv_fatb" and after.sections[-1].address % 0x1000 == 0
    old = next(section for section in after.sections if section.name == OLD_NAME.decode())
    assert not any(after.view.take(*after.content(old)))
    relocations = next(section for section in after.sections if section.name == ".reloc")
    assert len(image_pointers_into(after, after.sections[-1])) == 3
    assert after.view.take(*after.content(relocations)) == before.view.take(*before.content(before.sections[-1]))


@pytest.mark.parametrize("slot", [0, 1])
def test_a_pointer_to_the_middle_of_a_container_is_refused(tmp_path: Path, slot: int) -> None:
    data = bytearray(make_gpu_dll([[make_entry(2, 80, payload=make_cubin(80))] for _ in range(2)]))
    pe = Pe(bytes(data))
    wrappers = next(section for section in pe.sections if section.name == ".nvFatBi")
    at = wrappers.offset + 24 * slot + 8
    struct.pack_into("<Q", data, at, struct.unpack_from("<Q", data, at)[0] + 8)
    with _library(tmp_path, bytes(data)) as library, pytest.raises(Malformed):
        library.check_pointers()


def test_relocations_that_end_in_the_middle_are_refused(tmp_path: Path) -> None:
    data = bytearray(make_gpu_dll([[make_entry(2, 80, payload=make_cubin(80))]]))
    relocations = Pe(bytes(data)).sections[-1]
    struct.pack_into("<I", data, relocations.offset + 4, 1 << 20)
    with _library(tmp_path, bytes(data)) as library, pytest.raises(Malformed, match="in the middle"):
        library.check_pointers()
