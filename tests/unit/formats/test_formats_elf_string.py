"""A text that code returns, exchanged: where one instruction leads to it and there is room, else not at all."""

from __future__ import annotations

import struct

import pytest

from rekindle.formats.elf import Elf
from rekindle.formats.elf_string import replace_text
from returned_texts import CODE_AT, NEW, OLD, TEXT_AT, make_returning_library, returned_text


@pytest.mark.parametrize("machine", [62, 183])
def test_the_code_returns_the_new_text(machine: int) -> None:
    data = bytearray(make_returning_library(machine))
    assert returned_text(bytes(data), machine) == OLD
    edits = replace_text(Elf(bytes(data)), TEXT_AT + 7, OLD, NEW)
    assert edits is not None
    for edit in edits:
        data[edit.offset : edit.offset + len(edit.content)] = edit.content
    assert returned_text(bytes(data), machine) == NEW
    again = replace_text(Elf(bytes(data)), bytes(data).index(NEW), NEW, NEW + b" sm_121")
    assert again is not None


LEA = b"\x48\x8d\x3d" + struct.pack("<i", TEXT_AT + 7 - (CODE_AT + 7))


@pytest.mark.parametrize(
    "odd",
    [
        make_returning_library(code=b"\x90" * 64),
        make_returning_library(code=LEA + b"\x48\x8d\x3d" + struct.pack("<i", TEXT_AT + 7 - (CODE_AT + 14))),
        make_returning_library(code=LEA + b"\xbe" + struct.pack("<I", len(OLD))),
        make_returning_library(code=b"\x48\x8b\x3d" + LEA[3:]),
        make_returning_library(behind=b"x" * (0x1000 - 100)),
        make_returning_library(machine=243),
    ],
    ids=["nobody leads there", "two do", "its length stands beside", "no lea", "no room", "another machine"],
)
def test_where_it_is_not_certain_nothing_is_done(odd: bytes) -> None:
    assert replace_text(Elf(odd), TEXT_AT + 7, OLD, NEW) is None
