"""Functions, exports, pointers, imports and call stubs of real libraries, as pyelftools reads them."""

from __future__ import annotations

import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rekindle.formats.elf import Elf
from rekindle.formats.functions import LOCAL, Functions, code_of, find_functions
from rekindle.formats.references import read_references

elffile = pytest.importorskip("elftools.elf.elffile")
ENTRY_FDE = pytest.importorskip("elftools.dwarf.callframe").FDE
AT_MOST = 700_000  # bytes: pyelftools takes seconds for more
RELATIVE, BOUND = {62: 8, 183: 1027}, {62: (1, 6, 7), 183: (257, 1025, 1026)}


def libraries() -> list[Path]:
    """Small libraries that the tests' own dependencies bring: by other compilers, linkers, with and without symbols."""
    import msgspec
    import numpy
    import psutil

    found: list[Path] = []
    for module in (numpy, msgspec, psutil):
        assert module.__file__ is not None
        own = [path for path in Path(module.__file__).parent.rglob("*.so") if path.stat().st_size < AT_MOST]
        found += sorted(own, key=lambda path: (-path.stat().st_size, path.name))[:3]
    return [path for path in found if path.read_bytes()[:4] == b"\x7fELF"]


LIBRARIES = libraries() if sys.platform == "linux" else []
pytestmark = pytest.mark.skipif(not LIBRARIES, reason="needs ELF libraries")
each = pytest.mark.parametrize("path", LIBRARIES, ids=lambda path: path.name)


@cache
def theirs(path: Path) -> Any:
    return elffile.ELFFile(path.open("rb"))


@cache
def ours(path: Path) -> tuple[Elf, Functions]:
    elf = Elf(path.read_bytes(), path.name)
    return elf, find_functions(elf)


@cache
def frames(path: Path) -> dict[int, int]:
    """Start and end of each function in the unwind table."""
    entries = theirs(path).get_dwarf_info().EH_CFI_entries()
    return {
        one.header["initial_location"]: one.header["initial_location"] + one.header["address_range"]
        for one in entries
        if isinstance(one, ENTRY_FDE)
    }


def symbols(path: Path) -> dict[int, list[tuple[str, int, str]]]:
    """Functions by address: name, size and binding."""
    elf = theirs(path)
    table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
    found: dict[int, list[tuple[str, int, str]]] = defaultdict(list)
    for one in table.iter_symbols():
        if one["st_info"]["type"] in ("STT_FUNC", "STT_LOOS") and one["st_shndx"] != "SHN_UNDEF":
            found[one["st_value"]].append((one.name, one["st_size"], one["st_info"]["bind"]))
    return found


@each
def test_functions_are_the_symbols_and_what_the_unwind_table_has_besides(path: Path) -> None:
    elf, functions = ours(path)
    parts = [(part.address, part.address + part.size) for part in code_of(elf)]

    def inside(address: int) -> bool:
        return any(low <= address < high for low, high in parts)

    named = {at: max(size for _, size, _ in rows) for at, rows in symbols(path).items() if inside(at)}
    want = set(named)
    for start in frames(path):
        held = any(at == start or at <= start < at + size for at, size in named.items())
        if inside(start) and not held:
            want.add(start)
    assert functions.start.tolist() == sorted(want)
    for index, start in enumerate(functions.start.tolist()):
        end = int(functions.end[index])
        following = functions.start.tolist()[index + 1] if index + 1 < len(functions) else end
        whole = start + named[start] if named.get(start) else frames(path).get(start, following)
        limit = next(high for low, high in parts if low <= start < high)
        assert end == min(whole, following, limit) or (index + 1 == len(functions) and end == min(whole, limit))
        assert functions.at(start) == index and functions.at(end - 1) == index
        assert functions.named(index) == (start in named)


@each
def test_names_bindings_and_exports(path: Path) -> None:
    _, functions = ours(path)
    dynamic = theirs(path).get_section_by_name(".dynsym")
    shown = {
        one["st_value"]
        for one in dynamic.iter_symbols()
        if one["st_shndx"] != "SHN_UNDEF" and one["st_info"]["bind"] != "STB_LOCAL"
    }
    by_address = symbols(path)
    for index, start in enumerate(functions.start.tolist()):
        assert bool(functions.exported[index]) == (start in shown)
        rows = by_address.get(start, [])
        if not rows:
            assert functions.name(index) == f"function at {start:#x}" and functions.binding(index) == LOCAL
            continue
        assert functions.name(index) in {name for name, _, _ in rows}
        bindings = {"STB_LOCAL": 0, "STB_GLOBAL": 1, "STB_WEAK": 2}
        assert functions.binding(index) == max(bindings[binding] for _, _, binding in rows)


def relocations(path: Path) -> list[tuple[int, int, Any, int]]:
    """(slot, kind, symbol or None, addend) of every one the loader applies."""
    elf = theirs(path)
    dynamic = elf.get_section_by_name(".dynsym")
    rows = []
    for name in (".rela.dyn", ".rela.plt", ".rela.iplt"):
        section = elf.get_section_by_name(name)
        for one in section.iter_relocations() if section else ():
            symbol = dynamic.get_symbol(one["r_info_sym"]) if one["r_info_sym"] else None
            rows.append((one["r_offset"], one["r_info_type"], symbol, one["r_addend"]))
    return rows


@each
def test_pointers_and_imports_are_the_relocations(path: Path) -> None:
    elf, _ = ours(path)
    machine = {"EM_X86_64": 62, "EM_AARCH64": 183}[theirs(path)["e_machine"]]
    pointers, imports = set(), {}
    for slot, kind, symbol, addend in relocations(path):
        if kind == RELATIVE[machine]:
            pointers.add((slot, addend))
        elif kind in BOUND[machine] and symbol is not None and symbol["st_shndx"] != "SHN_UNDEF":
            pointers.add((slot, symbol["st_value"] + addend))
        elif kind in BOUND[machine] and symbol is not None:
            imports[slot] = symbol.name
    found = read_references(elf)
    packed = theirs(path).get_section_by_name(".relr.dyn")
    mine = {(slot, target) for slot, target in found.pointers.tolist()}
    assert pointers <= mine and found.imports == imports
    assert {slot for slot, _ in mine - pointers} == (
        {one["r_offset"] for one in packed.iter_relocations()} if packed else set()
    )
    assert found.pointers[:, 0].tolist() == sorted(found.pointers[:, 0].tolist())
    start = theirs(path).get_section_by_name(".init_array")
    low, high = (start["sh_addr"], start["sh_addr"] + start["sh_size"]) if start else (0, 0)
    assert found.started.tolist() == sorted({target for slot, target in mine if low <= slot < high})


@each
def test_every_call_stub_goes_through_a_slot_of_its_own(path: Path) -> None:
    elf, _ = ours(path)
    found = read_references(elf)
    jumped = {slot for slot, kind, _, _ in relocations(path) if kind in (7, 1026)}
    parts = [one for one in theirs(path).iter_sections() if one.name.startswith(".plt")]
    for address, slot in found.stubs.items():
        assert any(one["sh_addr"] <= address < one["sh_addr"] + one["sh_size"] for one in parts)
        assert slot in found.imports or slot in jumped or slot in set(found.pointers[:, 0].tolist()) or parts
    assert jumped <= set(found.stubs.values())


@each
def test_a_function_holds_its_addresses_and_no_others(path: Path) -> None:
    _, functions = ours(path)
    assert functions.at(0) is None and functions.at(int(functions.end.max())) is None
    assert (functions.start[1:] >= functions.end[:-1]).all() and (functions.end > functions.start).all()
