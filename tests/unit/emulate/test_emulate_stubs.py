"""Stand-in libraries, read back by another reader."""

from __future__ import annotations

import _ctypes
import ctypes
import io
import platform
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from hypothesis import given
from hypothesis import strategies as st

from rekindle.emulate.qemu import ARM, X86
from rekindle.emulate.stubs import elf_hash, read_linkage, serves_gpu, stub_library

LIBRARY = getattr(_ctypes, "__file__", None) or ""
names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,20}", fullmatch=True)


@given(st.dictionaries(names, st.one_of(st.none(), st.sampled_from(["libx.so.1", "libx.so.2"])), max_size=40))
def test_a_stub_is_read_back_by_another_reader(symbols: dict[str, str | None]) -> None:
    elf = ELFFile(io.BytesIO(stub_library("libx.so.1", symbols)))
    dynamic = next(part for part in elf.iter_segments() if isinstance(part, DynamicSegment))
    assert [getattr(tag, "soname", None) for tag in dynamic.iter_tags("DT_SONAME")] == ["libx.so.1"]
    read = {symbol.name for symbol in dynamic.iter_symbols() if symbol.name}
    assert read == set(symbols)
    assert elf.header.e_machine == "EM_X86_64" and elf.header.e_type == "ET_DYN"


def test_the_header_says_what_the_file_holds() -> None:
    header = ELFFile(io.BytesIO(stub_library("libx.so.1", {"f": None}))).header
    ident = header.e_ident
    assert (ident["EI_CLASS"], ident["EI_DATA"], ident["EI_VERSION"]) == ("ELFCLASS64", "ELFDATA2LSB", "EV_CURRENT")
    assert header.e_version == "EV_CURRENT" and header.e_phoff == header.e_ehsize == 64
    assert (header.e_phentsize, header.e_phnum, header.e_shentsize, header.e_shnum) == (56, 4, 64, 0)


def test_a_stand_in_is_readable_where_it_runs_and_writable_only_beside() -> None:
    elf = ELFFile(io.BytesIO(stub_library("libx.so.1", {"f": None})))
    flags = [(part["p_type"], part["p_flags"]) for part in elf.iter_segments()]
    assert flags == [("PT_LOAD", 5), ("PT_LOAD", 6), ("PT_DYNAMIC", 6), ("PT_GNU_STACK", 6)]


def _stub_parts(symbols: dict[str, str | None]) -> tuple[bytes, Any, dict[str, int]]:
    """A stand-in's bytes, another reader's view of them, and its dynamic section."""
    made = stub_library("libx.so.1", symbols)
    elf = ELFFile(io.BytesIO(made))
    dynamic = next(part for part in elf.iter_segments() if isinstance(part, DynamicSegment))
    return made, elf, {tag["d_tag"]: tag["d_val"] for tag in dynamic.iter_tags()}


def test_what_a_stand_in_does_not_have_is_zero() -> None:
    _, elf, _ = _stub_parts({"f": None})
    assert [elf.header[field] for field in ("e_entry", "e_shoff", "e_flags", "e_shstrndx")] == [0] * 4
    load, data, dynamic, stack = elf.iter_segments()
    assert (load["p_offset"], load["p_vaddr"], load["p_paddr"]) == (0, 0, 0)
    assert [stack[field] for field in ("p_offset", "p_vaddr", "p_filesz", "p_memsz")] == [0] * 4
    count = sum(1 for _ in dynamic.iter_tags())
    assert dynamic["p_filesz"] == data["p_filesz"] == 16 * count, "one row of zeros ends it"


def test_the_tables_of_a_stand_in_follow_one_another() -> None:
    made, _, tags = _stub_parts({"f": None, "g": "V_1", "h": "V_2"})
    # headers 64 + 4 * 56; symbols 4 * 24; hashes 4 * (2 + 3 + 4); versions 4 * 2; their definitions 3 * 28; text 25
    names = ("DT_SYMTAB", "DT_HASH", "DT_VERSYM", "DT_VERDEF", "DT_STRTAB")
    assert [tags[name] for name in names] == [288, 384, 432, 448, 544]
    assert (tags["DT_STRSZ"], tags["DT_SYMENT"], tags["DT_VERDEFNUM"]) == (25, 24, 3)
    assert made[544:569] == b"\0libx.so.1\0f\0g\0h\0V_1\0V_2\0"
    assert made[288:312] == bytes(24) and struct.unpack_from("<4H", made, 432) == (0, 1, 2, 3)
    assert {struct.unpack_from("<BBHQQ", made, at + 4) for at in (312, 336, 360)} == {(0x12, 0, 1, 576, 6)}


def test_each_version_of_a_stand_in_is_defined_after_the_file_itself() -> None:
    made, _, tags = _stub_parts({"f": "V_1", "g": "V_2"})
    rows = [struct.unpack_from("<HHHHIIIII", made, tags["DT_VERDEF"] + 28 * number) for number in range(3)]
    text = made[tags["DT_STRTAB"] :]
    for number, (name, row) in enumerate(zip(("libx.so.1", "V_1", "V_2"), rows, strict=True), start=1):
        following = 0 if number == 3 else 28
        assert row[:7] == (1, int(number == 1), number, 1, elf_hash(name), 20, following)
        assert text[row[7] :].startswith(name.encode() + b"\0") and row[8] == 0


def test_a_stand_in_without_functions_has_one_empty_bucket() -> None:
    made, _, tags = _stub_parts({})
    assert struct.unpack_from("<4I", made, tags["DT_HASH"]) == (1, 1, 0, 0)


NATIVE = {"x86_64": X86, "aarch64": ARM}.get(platform.machine())


@pytest.mark.skipif(sys.platform != "linux" or NATIVE is None, reason="needs the loader of an emulated machine")
def test_this_machines_own_loader_takes_a_stand_in_with_versions(tmp_path: Path) -> None:
    path = tmp_path / "libx.so.1"
    symbols = {"plain": None, "second": "V_1", "third": "V_2", "fourth": "V_2"}
    assert NATIVE is not None
    path.write_bytes(stub_library("libx.so.1", symbols, NATIVE))
    library = ctypes.CDLL(str(path))
    assert [library[name]() for name in symbols] == [999] * 4
    find = ctypes.CDLL(None).dlvsym
    find.restype, find.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    held = {
        (name, version): bool(find(library._handle, name.encode(), version.encode()))
        for name in symbols
        for version in ("V_1", "V_2")
    }
    assert [pair for pair, there in held.items() if there] == [("second", "V_1"), ("third", "V_2"), ("fourth", "V_2")]


def test_the_hash_is_the_one_of_the_abi() -> None:
    # System V ABI, "Hash Table": the reference function gives these.
    assert elf_hash("") == 0 and elf_hash("printf") == 0x077905A6 and elf_hash("syscall") == 0x0B09985C


def test_a_stand_in_is_for_the_machine_of_the_wheel() -> None:
    for emulated in (X86, ARM):
        made = ELFFile(io.BytesIO(stub_library("libcuda.so.1", {"cuInit": None}, emulated)))
        assert made["e_machine"] == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[emulated.machine]
        segments = [one for one in made.iter_segments() if one["p_type"] == "PT_LOAD"]
        assert all(one["p_vaddr"] % one["p_align"] == one["p_offset"] % one["p_align"] for one in segments)


@pytest.mark.parametrize(
    ("name", "serves"),
    [
        ("libcuda.so.1", True),
        ("libcudart.so.12", True),
        ("libcublasLt.so.11", True),
        ("libcudnn.so.9", True),
        ("libnvrtc.so.12", True),
        ("libnccl.so.2", True),
        ("libamdhip64.so.6", True),
        ("libhsa-runtime64.so.1", True),
        ("libMIOpen.so.1", True),
        ("libze_loader.so.1", True),
        ("libcurl.so.4", False),
        ("libopenblas.so.0", False),
        ("libtorch_cpu.so", False),
        ("libspark_core.so", False),
        ("libgomp.so.1", False),
        ("libmpi.so.40", False),
    ],
)
def test_only_what_serves_a_gpu_gets_a_stand_in(name: str, serves: bool) -> None:
    assert serves_gpu(name) == serves


def test_the_code_of_a_stand_in_lies_in_what_may_be_executed() -> None:
    elf = ELFFile(io.BytesIO(stub_library("libx.so.1", {"f": None, "g": "V_1"})))
    first = next(elf.iter_segments())
    dynamic = next(part for part in elf.iter_segments() if isinstance(part, DynamicSegment))
    ends = [symbol["st_value"] + symbol["st_size"] for symbol in dynamic.iter_symbols() if symbol.name]
    assert ends == [first["p_filesz"]] * 2 == [first["p_memsz"]] * 2


@given(st.dictionaries(names, st.one_of(st.none(), st.just("V_1")), min_size=1, max_size=9))
def test_tables_and_code_lie_where_their_kind_may(symbols: dict[str, str | None]) -> None:
    elf = ELFFile(io.BytesIO(stub_library("libx.so.1", symbols)))
    dynamic = next(part for part in elf.iter_segments() if isinstance(part, DynamicSegment))
    tables = ("DT_SYMTAB", "DT_HASH", "DT_VERSYM", "DT_VERDEF")
    at = [tag["d_val"] for name in tables for tag in dynamic.iter_tags(name)]
    assert len(at) in (2, 4) and all(place % 8 == 0 for place in at) and min(at) >= 64 + 4 * 56
    assert all(symbol["st_value"] % 16 == 0 for symbol in dynamic.iter_symbols() if symbol.name)


@pytest.mark.skipif(sys.platform != "linux" or not LIBRARY, reason="reads a library of this machine")
def test_symbols_and_their_versions_are_read_as_another_reader_does() -> None:
    path = Path(LIBRARY)
    elf: Any = ELFFile(io.BytesIO(path.read_bytes()))
    symbols, numbers = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    versions = {
        version["vna_other"]: (library.name, version.name)
        for library, needed in elf.get_section_by_name(".gnu.version_r").iter_versions()
        for version in needed
    }
    wanted, defined = set(), set()
    for place, symbol in enumerate(symbols.iter_symbols()):
        if symbol["st_shndx"] != "SHN_UNDEF":
            defined.add(symbol.name)
        elif symbol.name and symbol["st_info"]["bind"] != "STB_WEAK":
            wanted.add((symbol.name, *versions.get(numbers.get_symbol(place)["ndx"], (None, None))))
    found = read_linkage(path)
    assert found is not None and found.undefined == wanted and found.defined == defined
    assert any(library for _, library, _ in wanted) and any(name.startswith("libc.") for name in found.needed)
