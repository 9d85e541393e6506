"""How many entries a zip's directory really holds, before anything reads it whole; and what inflates them. A zip says
at its end how many entries it has and how long their list is. Readers differ in which they believe, and a list of
millions costs minutes and gigabytes. This walks the list itself and stops at a limit."""

import contextlib
import functools
import importlib
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO

from rekindle.errors import BadInput

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s24xHHH12x")
_LONGEST_COMMENT = 65535
# The longest a name and what belongs to it may be on average; real wheels have under 150.
BYTES_PER_ENTRY = 512


def check_count(stream: BinaryIO, what: str, limit: int) -> None:
    """Refuse more than ``limit`` entries or another number than it says; what is no zip passes to its reader."""
    if (place := _find_directory(stream)) is None:
        return
    start, size, claimed = place
    if size > limit * BYTES_PER_ENTRY:
        raise BadInput(f"{what} has a directory of {size >> 20} MiB; at most {limit} files are read")
    stream.seek(start)
    raw = stream.read(size)
    count = at = 0
    while at + _ENTRY.size <= len(raw):
        magic, name, extra, comment = _ENTRY.unpack_from(raw, at)
        if magic != b"PK\x01\x02":
            break
        count += 1
        if count > limit:
            raise BadInput(f"{what} holds more than {limit} files; it is not read")
        at += _ENTRY.size + name + extra + comment
    if claimed not in (count, count & 0xFFFF):
        raise BadInput(f"{what} says it holds {claimed} files but lists {count}; which ones count is anyone's guess")


def _find_directory(stream: BinaryIO) -> tuple[int, int, int] | None:
    """(where the list starts, its bytes, the number of entries it is said to have)."""
    length = stream.seek(0, os.SEEK_END)
    tail_at = max(0, length - _END.size - _LONGEST_COMMENT)
    stream.seek(tail_at)
    tail = stream.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or at + _END.size > len(tail):
        return None
    _, _, _, _, claimed, size, _, _ = _END.unpack_from(tail, at)
    end = tail_at + at
    if at >= _LOCATOR.size and tail[at - _LOCATOR.size :][:4] == b"PK\x06\x07":
        _, _, where, _ = _LOCATOR.unpack_from(tail, at - _LOCATOR.size)
        stream.seek(min(where, length))
        raw = stream.read(_END64.size)
        if len(raw) == _END64.size and raw[:4] == b"PK\x06\x06":
            claimed, size = _END64.unpack(raw)[7:9]
            end = where
    # Bytes before the first member (self-extracting files) shift everything; the list ends where its end begins.
    return max(0, end - size), size, claimed


_engine: Any = zlib
with contextlib.suppress(ImportError):
    _engine = importlib.import_module("zlib_ng.zlib_ng")

ENGINE: str = _engine.__name__
Damaged: type[Exception] = _engine.error
crc32: Callable[[bytes, int], int] = _engine.crc32
# A decompressor for deflate without a header, as zip members are.
raw_inflater: Callable[[], Any] = functools.partial(_engine.decompressobj, -zlib.MAX_WBITS)
