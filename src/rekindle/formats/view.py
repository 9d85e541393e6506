"""A bounded look at a stranger's bytes: every read is checked, and a lie is a :class:`Malformed`. ``View`` wraps
anything with the buffer protocol (bytes, mmap). It copies only what is asked for."""

from __future__ import annotations

import contextlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO

from rekindle.errors import BadInput

MAX_NAME_BYTES = 64 * 1024
# How much is read at a time: pieces that stay in the processor's cache are handled faster than large ones.
CHUNK = 1 << 18


class Malformed(BadInput):
    """The bytes contradict themselves: an offset, a size or a count that cannot be true."""


def release(data: object, offset: int, size: int) -> None:
    """Let the system take back the pages of a mapped file that were read once: hundreds of MB then stay small."""
    if isinstance(data, mmap.mmap) and hasattr(data, "madvise"):
        low = round_up(offset, mmap.PAGESIZE)
        high = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
        if high > low:
            data.madvise(mmap.MADV_DONTNEED, low, high - low)


@contextlib.contextmanager
def map_open(file: BinaryIO) -> Iterator[Any]:
    """An open file as a buffer: mapped, not read."""
    if file.seek(0, 2) == 0:
        yield b""
        return
    buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        yield buffer
    finally:
        # NumPy arrays may still look into it while an error travels up; the last of them lets go of it.
        with contextlib.suppress(BufferError):
            buffer.close()


@contextlib.contextmanager
def map_file(path: Path) -> Iterator[Any]:
    """The same by its path."""
    with path.open("rb") as file, map_open(file) as buffer:
        yield buffer


def read_lines(path: Path, most: int) -> Iterator[str]:
    """A text file line by line; nothing of one that has more bytes than that. An OSError is the reader's to judge: what
    came before it is no whole file."""
    if path.stat().st_size <= most:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file


def copy_stretch(data: Any, out: IO[bytes], start: int, end: int) -> None:
    """Bytes of a mapped file into another one, a megabyte at a time."""
    for at in range(start, end, 1 << 20):
        out.write(data[at : min(at + (1 << 20), end)])
    release(data, start, end - start)


def round_up(value: int, step: int) -> int:
    """The next multiple of ``step``, or ``value`` itself."""
    return -(-value // step) * step


class View:
    """``what`` is the name of the file for messages."""

    __slots__ = ("data", "size", "what")

    def __init__(self, data: Any, what: str = "file") -> None:
        self.data, self.size, self.what = data, len(data), what

    def unpack(self, form: str, offset: int) -> tuple[Any, ...]:
        """``struct.unpack_from`` that answers for its bounds."""
        try:
            if offset < 0:
                raise struct.error("negative offset")
            return struct.unpack_from(form, self.data, offset)
        except (struct.error, OverflowError) as error:
            raise Malformed(f"{self.what} ends before offset {offset}, where a header should be") from error

    def number(self, form: str, offset: int) -> int:
        """The first field alone."""
        return int(self.unpack(form, offset)[0])

    def take(self, offset: int, size: int) -> bytes:
        """Exactly ``size`` bytes."""
        if not self.inside(offset, size):
            raise Malformed(f"{self.what} has no {size} bytes at offset {offset} (it is {self.size} bytes long)")
        return bytes(self.data[offset : offset + size])

    def text(self, offset: int, limit: int | None = None) -> str:
        """The zero-terminated name at ``offset``; bytes that are no UTF-8 stay visible as escapes."""
        end = self.size if limit is None else min(limit, self.size)
        if not 0 <= offset < end:
            raise Malformed(f"{self.what} points to a name at offset {offset}, outside its table")
        stop = min(end, offset + MAX_NAME_BYTES)
        piece = bytes(self.data[offset : min(stop, offset + 256)])
        cut = piece.find(b"\0")
        if cut < 0 and stop > offset + 256:
            piece = bytes(self.data[offset:stop])
            cut = piece.find(b"\0")
        if cut < 0:
            raise Malformed(f"{self.what} has a name at offset {offset} that never ends")
        return piece[:cut].decode("utf-8", "backslashreplace")

    def inside(self, offset: int, size: int) -> bool:
        """Does this stretch lie in the file?"""
        return offset >= 0 and size >= 0 and offset + size <= self.size
