"""A wheel rewritten in one pass and bounded memory: unchanged members go from file to file as they are, compressed. The
result appears under its name only when it is complete."""

import base64
import contextlib
import csv
import hashlib
import io
import os
import re
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from rekindle.errors import BadInput

_CHUNK = 1 << 20
_LOCAL = struct.Struct("<4s5H3L2H")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_VERSION = re.compile(rb"^Version:[^\r\n]*", re.MULTILINE)


class Rewriter:
    """Writes a new wheel from an old one. ``rows`` is RECORD as it grows, ``folder`` the new ``.dist-info``, ``record``
    where the old RECORD lies if elsewhere; ``fresh`` starts a new one. ``stamp`` is the time of new members."""

    def __init__(
        self,
        source: zipfile.ZipFile,
        target: zipfile.ZipFile,
        folder: str,
        *,
        record: str | None = None,
        fresh: bool = False,
        stamp: tuple[int, ...] = _EPOCH,
    ) -> None:
        self.source, self.target, self.folder, self.stamp = source, target, folder, stamp
        self.rows: dict[str, tuple[str, str]] = {}
        if not fresh:
            name = record or f"{folder}/RECORD"
            try:
                text = source.read(name).decode("utf-8")
                self.rows = {row[0]: (row[1], row[2]) for row in csv.reader(io.StringIO(text)) if len(row) >= 3}
            except (KeyError, UnicodeDecodeError, csv.Error) as error:
                raise BadInput(f"the wheel has no readable {name}") from error

    def copy(self, info: zipfile.ZipInfo) -> None:
        """The member with its compressed bytes untouched."""
        reading, writing = self.source.fp, self.target.fp
        assert reading is not None and writing is not None
        reading.seek(info.header_offset)
        head = reading.read(_LOCAL.size)
        if len(head) < _LOCAL.size or head[:4] != b"PK\x03\x04":
            raise BadInput(f"the wheel is damaged: nothing is stored where {info.filename!a} should begin")
        fields = _LOCAL.unpack(head)
        reading.seek(info.header_offset + _LOCAL.size + fields[9] + fields[10])
        clone = zipfile.ZipInfo(info.filename, info.date_time)
        for name in ("compress_type", "external_attr", "create_system", "CRC", "compress_size", "file_size"):
            setattr(clone, name, getattr(info, name))
        # Sizes are known now, so no data descriptor follows; the bit for UTF-8 names stays.
        clone.flag_bits = info.flag_bits & 0x800
        clone.header_offset = self.target.start_dir
        writing.seek(self.target.start_dir)
        writing.write(clone.FileHeader(zip64=max(clone.file_size, clone.compress_size) > zipfile.ZIP64_LIMIT))
        left = info.compress_size
        while left:
            if not (chunk := reading.read(min(left, _CHUNK))):
                raise BadInput(f"the wheel is cut short in {info.filename!a}")
            writing.write(chunk)
            left -= len(chunk)
        self.target.start_dir = writing.tell()
        self.target.filelist.append(clone)
        self.target.NameToInfo[clone.filename] = clone
        self.target._didModify = True  # type: ignore[attr-defined]

    def add(self, name: str, chunks: Iterable[bytes], *, mode: int = 0o644) -> int:
        """A new or replaced member; its row in RECORD is renewed. Returns the bytes it takes compressed."""
        info = new_member(name, mode, self.stamp)
        digest, size = hashlib.sha256(), 0
        with self.target.open(info, "w", force_zip64=True) as stream:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                stream.write(chunk)
        encoded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        self.rows[name] = (f"sha256={encoded}", str(size))
        return info.compress_size

    def replace(self, info: zipfile.ZipInfo, path: Path) -> None:
        """A library of the old wheel with the content of a file; who may run it stays as it was."""
        self.add(info.filename, file_chunks(path), mode=(info.external_attr >> 16) & 0o777 or 0o755)

    def take_over(
        self,
        info: zipfile.ZipInfo,
        version: str,
        *,
        leave: Collection[str] = (),
        change: Callable[[bytes], bytes] = bytes,
    ) -> bytes:
        """A file of the old ``.dist-info`` in the new one: METADATA with another ``version`` and what else is to
        ``change``; neither what is to ``leave`` nor RECORD and its signatures, no longer true. What was written."""
        tail = info.filename.partition("/")[2]
        self.rows.pop(info.filename, None)
        if tail in ("RECORD", "RECORD.jws", "RECORD.p7s", *leave):
            return b""
        content = self.source.read(info)
        if tail == "METADATA":
            content = change(_VERSION.sub(b"Version: " + version.encode(), content, count=1))
        self.add(f"{self.folder}/{tail}", [content])
        return content

    def finish(self) -> bytes:
        """RECORD, last as the wheel specification recommends; returns it."""
        name = f"{self.folder}/RECORD"
        self.rows.pop(name, None)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows((key, *value) for key, value in self.rows.items())
        writer.writerow((name, "", ""))
        record = out.getvalue().encode("utf-8")
        self.target.writestr(new_member(name, stamp=self.stamp), record)
        return record


@contextlib.contextmanager
def tell_zip_errors(wheel: Path) -> Iterator[None]:
    """Whatever Python finds wrong with the archive becomes a :class:`BadInput`."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise BadInput(f"{wheel.name} is no readable wheel: {error}") from error


def new_member(name: str, mode: int = 0o644, stamp: tuple[int, ...] = _EPOCH) -> zipfile.ZipInfo:
    """A file to be, deflated: the same header on every system and at any time."""
    info = zipfile.ZipInfo(name, stamp)  # type: ignore[arg-type]
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o100000 | mode) << 16
    info.create_system = _UNIX
    return info


def folder_of(old: str, version: str) -> str:
    """The ``.dist-info`` of another version."""
    return f"{old.removesuffix('.dist-info').rpartition('-')[0]}-{version}.dist-info"


def member_chunks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    with archive.open(name) as file:
        yield from iter(partial(file.read, _CHUNK), b"")


def file_chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(partial(file.read, _CHUNK), b"")


def extract(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    """One member into a file of our choosing (its name never decides where)."""
    with archive.open(name) as reading, target.open("wb") as writing:
        shutil.copyfileobj(reading, writing, _CHUNK)
        writing.flush()
        os.fsync(writing.fileno())
