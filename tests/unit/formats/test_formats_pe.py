"""PE images: function tables that are missing, empty or lie; imports; the variable that guards the stack."""

from __future__ import annotations

import struct

import pytest

from binaries import make_pe
from rekindle.formats.functions import find_functions
from rekindle.formats.pe import EXCEPTION, IMPORT, LOAD_CONFIG, Pe
from rekindle.formats.references import read_pe_references
from rekindle.formats.view import Malformed
from rekindle.inspect.libraries import read_library

CODE = bytes.fromhex("c5f458c2c3") * 8


@pytest.mark.parametrize("table", [None, (0x3000, 0), (0x3000, 11), (0, 24)])
def test_no_or_an_empty_function_table(table: tuple[int, int] | None) -> None:
    data = make_pe({".text": CODE, ".pdata": b"\0" * 24}, more={EXCEPTION: table} if table else {})
    assert len(find_functions(Pe(data))) == 0
    library = read_library(data, "a.dll", step=lambda done, total: None)
    assert library is not None
    assert library.cpu is not None
    assert library.cpu.exposure.functions == 0


def test_a_function_table_of_zeros_names_no_code() -> None:
    data = make_pe({".text": CODE, ".pdata": b"\0" * 24}, more={EXCEPTION: (0x3000, 24)})
    assert len(find_functions(Pe(data))) == 0


def test_a_function_table_that_claims_more_than_there_is() -> None:
    data = make_pe({".text": CODE, ".pdata": b"\0" * 24}, more={EXCEPTION: (0x3000, 1 << 30)})
    with pytest.raises(Malformed, match="function table"):
        find_functions(Pe(data))


def test_exported_leaves_are_functions_too() -> None:
    """They end where the next function starts; what lies inside another function or in no code is none."""
    table = struct.pack("<6I", 0x2000, 0x2080, 0, 0x2100, 0x2180, 0)
    exports = ((0x2000, "a"), (0x2040, "b"), (0x2090, "c"), (0x2200, "d"), (0x9000, "e"))
    for rows, starts, ends in (
        (24, [0x2000, 0x2090, 0x2100, 0x2200], [0x2080, 0x2100, 0x2180, 0x2280]),
        (0, [0x2000, 0x2040, 0x2090, 0x2200], [0x2040, 0x2090, 0x2200, 0x2280]),
    ):
        pe = Pe(make_pe({".text": b"\x90" * 0x280, ".pdata": table}, more={EXCEPTION: (0x3000, rows)}))
        pe.exports = exports
        found = find_functions(pe)
        assert (found.start.tolist(), found.end.tolist()) == (starts, ends)


def test_imports_and_the_jumps_through_them() -> None:
    """.idata is at 0x1000: one library, its names, a slot for a name and one for a number."""
    table = struct.pack("<5I", 0x1060, 0, 0, 0x1050, 0x1080) + b"\0" * 20
    names = table.ljust(0x50, b"\0") + b"k.dll"
    rows = names.ljust(0x60, b"\0") + struct.pack("<QQQ", 0x10A0, 1 << 63 | 7, 0)
    slots = rows.ljust(0x80, b"\0") + struct.pack("<QQQ", 0x10A0, 1 << 63 | 7, 0)
    idata = slots.ljust(0xA0, b"\0") + b"\0\0f\0"
    jump = b"\xcc\xff\x25" + struct.pack("<i", 0x1080 - (0x3001 + 6)) + b"\xff\x25" + struct.pack("<i", 5) + b"\xc3" * 8
    config = struct.pack("<Q", 0x180004000).rjust(0x60, b"\0")
    data = make_pe(
        {".rdata": config, ".text": jump}, imports=["x"], more={IMPORT: (0x4000, 40), LOAD_CONFIG: (0x2000, 0x60)}
    )
    # The table above wants to lie at 0x1000, where make_pe puts its own.
    pe = Pe(data.replace(data[0x400:0x600], idata.ljust(0x200, b"\0"), 1))
    pe.directories = (*pe.directories[:1], (0x1000, 40), *pe.directories[2:])
    assert pe.imports == {0x1080: ("k.dll", "f")}
    assert read_pe_references(pe).stubs == {0x3001: 0x1080}
    assert pe.cookie == 0x4000


def test_exports_that_are_handed_on() -> None:
    """Only addresses inside the export table are strings; a name without a library is none."""
    at = 0x2000
    strings = b"back.work\0" + b"alone\0" + b"OTHER.#7\0"
    functions = (0x1000, at + 56, at + 66, at + 72, at + 0x900)
    head = bytes(20) + struct.pack("<II", len(functions), 0) + struct.pack("<I", at + 36) + bytes(4)
    table = head + struct.pack("<5I", *functions) + strings
    data = make_pe({".edata": table.ljust(0xA00, b"z")}, imports=["KERNEL32.dll"], more={0: (at, len(table))})
    assert Pe(data).forwards == ("back", "OTHER")
    many = bytearray(data)
    struct.pack_into("<I", many, data.index(table) + 20, (1 << 18) + 1)
    with pytest.raises(Malformed, match="export table"):
        _ = Pe(bytes(many)).forwards
    assert Pe(make_pe(imports=["KERNEL32.dll"])).forwards == ()
