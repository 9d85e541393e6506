"""A text that code returns, exchanged: where one instruction leads to it and there is room, else not at all."""

from __future__ import annotations

import struct

import pytest

from rekindle.formats.elf import Elf
from rekindle.formats.elf_string import replace_text
from rekindle.graft.wheel import correct_list, corrected

OLD = b"sm_75 sm_80 sm_120"
NEW = b"sm_75 sm_80 sm_90 sm_120"
TEXT_AT, CODE_AT, END = 0x1000, 0x2000, 0x4000
NAMES = ("", ".rodata", ".text", ".shstrtab")


def _library(machine: int = 62, *, code: bytes | None = None, behind: bytes = b"", text: bytes = OLD) -> bytes:
    """Read-only data with the text, then code that leads to it; ``behind`` follows the data where room could be."""
    rodata = b"\0other\0" + text + b"\0"
    where = TEXT_AT + 7
    if code is None and machine == 62:
        code = b"\x90" * 32 + b"\x48\x8d\x3d" + struct.pack("<i", where - (CODE_AT + 39)) + b"\xe8\0\0\0\0"
    elif code is None:
        pages = (where >> 12) - (CODE_AT >> 12)
        adrp = 0x90000000 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
        code = struct.pack("<IIII", 0xD503201F, adrp, 0x91000000 | (where & 0xFFF) << 10, 0x94000000)
    image = bytearray(END)
    labels = b"".join(name.encode() + b"\0" for name in NAMES)
    image[TEXT_AT : TEXT_AT + len(rodata)] = rodata
    image[TEXT_AT + len(rodata) : TEXT_AT + len(rodata) + len(behind)] = behind
    image[CODE_AT : CODE_AT + len(code)] = code
    rows = [(0, 0, 0, 0, 0, 0), (1, 1, 2, TEXT_AT, TEXT_AT, len(rodata)), (9, 1, 6, CODE_AT, CODE_AT, len(code)),
            (15, 3, 0, 0, END - 64, len(labels))]  # fmt: skip
    image[END - 64 : END - 64 + len(labels)] = labels
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, END, 0, 64, 56, 2, 64, len(rows), 3)
    image[:64] = head
    for i, (flags, at, size) in enumerate(((4, TEXT_AT, len(rodata)), (5, CODE_AT, 0x1000))):
        image[64 + 56 * i : 120 + 56 * i] = struct.pack("<IIQQQQQQ", 1, flags, at, at, at, size, size, 0x1000)
    return bytes(image) + b"".join(struct.pack("<IIQQQQIIQQ", *row, 0, 0, 1, 0) for row in rows)


def _returned(data: bytes, machine: int) -> bytes:
    """The text that the code leads to."""
    if machine == 62:
        (distance,) = struct.unpack_from("<i", data, CODE_AT + 35)
        where = CODE_AT + 39 + distance
    else:
        adrp, add = struct.unpack_from("<II", data, CODE_AT + 4)
        pages = (adrp >> 29 & 3) | (adrp >> 5 & 0x7FFFF) << 2
        where = ((CODE_AT >> 12) + pages - (1 << 21 if pages >> 20 else 0)) * 4096 + (add >> 10 & 0xFFF)
    place = Elf(data).offset_of(where)
    assert place is not None, "it is mapped"
    return data[place : data.index(b"\0", place)]


@pytest.mark.parametrize("machine", [62, 183])
def test_the_code_returns_the_new_text(machine: int) -> None:
    data = bytearray(_library(machine))
    assert _returned(bytes(data), machine) == OLD
    edits = replace_text(Elf(bytes(data)), TEXT_AT + 7, OLD, NEW)
    assert edits is not None
    for edit in edits:
        data[edit.offset : edit.offset + len(edit.content)] = edit.content
    assert _returned(bytes(data), machine) == NEW
    again = replace_text(Elf(bytes(data)), bytes(data).index(NEW), NEW, NEW + b" sm_121")
    assert again is not None


LEA = b"\x48\x8d\x3d" + struct.pack("<i", TEXT_AT + 7 - (CODE_AT + 7))


@pytest.mark.parametrize(
    "odd",
    [
        _library(code=b"\x90" * 64),
        _library(code=LEA + b"\x48\x8d\x3d" + struct.pack("<i", TEXT_AT + 7 - (CODE_AT + 14))),
        _library(code=LEA + b"\xbe" + struct.pack("<I", len(OLD))),
        _library(code=b"\x48\x8b\x3d" + LEA[3:]),
        _library(behind=b"x" * (0x1000 - 100)),
        _library(machine=243),
    ],
    ids=["nobody leads there", "two do", "its length stands beside", "no lea", "no room", "another machine"],
)
def test_where_it_is_not_certain_nothing_is_done(odd: bytes) -> None:
    assert replace_text(Elf(odd), TEXT_AT + 7, OLD, NEW) is None


def test_the_list_of_a_library(tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "lib.so"
    path.write_bytes(_library())
    assert correct_list(path, ["sm_90"]) is None and _returned(path.read_bytes(), 62) == NEW
    before = path.read_bytes()
    assert correct_list(path, ["sm_90"]) is None and path.read_bytes() == before
    path.write_bytes(_library(code=b"\x90" * 64))
    assert "certainty" in str(correct_list(path, ["sm_90"]))
    path.write_bytes(_library(text=b"no list"))
    assert "not found" in str(correct_list(path, ["sm_90"]))


@pytest.mark.parametrize(
    ("old", "archs", "new"),
    [
        ("sm_75 sm_80 sm_120", ["sm_90"], "sm_75 sm_80 sm_90 sm_120"),
        ("sm_75 compute_90", ["sm_120"], "sm_75 sm_120 compute_90"),
        ("sm_50 sm_60", ["sm_37"], "sm_37 sm_50 sm_60"),
        ("sm_50 sm_60", ["sm_60"], "sm_50 sm_60"),
    ],
)
def test_architectures_in_their_order(old: str, archs: list[str], new: str) -> None:
    assert corrected(old, archs) == new
