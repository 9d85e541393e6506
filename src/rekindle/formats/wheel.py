"""A wheel as a zip archive from a stranger: members, their bytes, METADATA, WHEEL and RECORD.

Nothing is extracted by name, so nothing can escape; still a wheel with escaping, doubled or encrypted
members is refused, because what pip would install from it is not what we read. Inflating is bounded by
the size the directory declares, and the declared sizes by what real libraries reach.
"""

from __future__ import annotations

import base64
import binascii
import csv
import functools
import hashlib
import io
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from typing import BinaryIO

from rekindle.errors import BadInput
from rekindle.formats.inflate import Damaged, crc32, raw_inflater

# Pieces that stay in the processor's cache inflate faster than large ones.
CHUNK = 1 << 18
MAX_PIECE = 1 << 23
MAX_SMALL = 64 << 20
# Real CUDA wheels inflate 2 to 4 times, their largest library holds under 3 GiB.
MAX_RATIO = 120
RATIO_FROM = 64 << 20
MAX_TOTAL = 64 << 30
MAX_MEMBERS = 500_000
_LOCAL = struct.Struct("<4s22xHH")


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    size: int
    stored: int
    method: int
    crc: int
    header: int


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of RECORD; ``digest`` is None where the format leaves it out (RECORD itself)."""

    algorithm: str | None
    digest: bytes | None
    size: int | None


class WheelZip:
    """``opener`` gives a fresh seekable stream each time, so that several threads can inflate at once."""

    def __init__(self, opener: Callable[[], BinaryIO], what: str) -> None:
        self.what = what
        self._open = opener
        with opener() as stream:
            head = stream.read(512)
            stream.seek(0)
            try:
                with zipfile.ZipFile(stream) as archive:
                    infos = archive.infolist()
            except (
                zipfile.BadZipFile,
                struct.error,
                ValueError,
                NotImplementedError,
                OverflowError,
                EOFError,
            ) as error:
                raise BadInput(_why_no_zip(head, what, error), remedy="download it again") from error
        self.members = {member.name: member for member in map(self._member, infos)}
        if len(self.members) != len(infos):
            names = [info.filename for info in infos]
            double = next(name for name in names if names.count(name) > 1)
            raise BadInput(f"{what} holds two members called {double!r}; which one counts is anyone's guess")
        if len(infos) > MAX_MEMBERS or sum(member.size for member in self.members.values()) > MAX_TOTAL:
            raise BadInput(f"{what} would unpack to more than {MAX_TOTAL >> 30} GiB; it is no wheel worth reading")

    def _member(self, info: zipfile.ZipInfo) -> Member:
        name, what = info.filename, self.what
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or name[:1] in ("/", "\\") or ":" in parts[0]:
            raise BadInput(f"{what} has a member {name!r} that would be written outside the installation")
        if info.flag_bits & 0x1:
            raise BadInput(f"{what} is encrypted ({name!r}); wheels never are")
        if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * max(info.compress_size, 1):
            raise BadInput(
                f"{what}: {name!r} would inflate {info.compress_size} bytes to {info.file_size}; that is a zip bomb"
            )
        return Member(name, info.file_size, info.compress_size, info.compress_type, info.CRC, info.header_offset)

    def read(self, name: str, limit: int = MAX_SMALL) -> bytes:
        """A small member, whole."""
        out = bytearray()
        member = self.members[name]
        if member.size > limit:
            raise BadInput(f"{self.what}: {name!r} is {member.size} bytes, larger than such a file ever is")
        self.inflate(name, out.extend)
        return bytes(out)

    def find(self, name: str, limit: int = MAX_SMALL) -> bytes | None:
        return self.read(name, limit) if name in self.members else None

    def inflate(self, name: str, sink: Callable[[bytes], object]) -> str:
        """Send a member's bytes to ``sink`` piece by piece; returns their SHA-256. Size and CRC are checked."""
        with self._open() as stream:
            return self._inflate(stream, self.members[name], sink)

    def digests(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """(name, SHA-256) of many members through one stream, in the order they are stored."""
        with self._open() as stream:
            for member in sorted((self.members[name] for name in names), key=lambda member: member.header):
                yield member.name, self._inflate(stream, member, None)

    def _inflate(self, stream: BinaryIO, member: Member, sink: Callable[[bytes], object] | None) -> str:
        name, digest, crc, size = member.name, hashlib.sha256(), 0, 0
        for piece in self._pieces(stream, member):
            size += len(piece)
            if size > member.size:
                raise BadInput(f"{self.what}: {name!r} inflates to more than the {member.size} bytes it declares")
            digest.update(piece)
            crc = crc32(piece, crc)
            if sink is not None:
                sink(piece)
        if size != member.size or crc != member.crc:
            raise BadInput(f"{self.what}: {name!r} is damaged (size or checksum differ)", remedy="download it again")
        return digest.hexdigest()

    def _pieces(self, stream: BinaryIO, member: Member) -> Iterator[bytes]:
        # A damaged directory may point before the file begins.
        stream.seek(max(0, member.header))
        header = stream.read(_LOCAL.size) if member.header >= 0 else b""
        if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise BadInput(
                f"{self.what}: nothing is stored where {member.name!r} should begin", remedy="download it again"
            )
        _, name_length, extra_length = _LOCAL.unpack(header)
        stream.seek(member.header + _LOCAL.size + name_length + extra_length)
        left = member.stored
        if member.method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadInput(
                f"{self.what}: {member.name!r} is compressed with method {member.method}; wheels use deflate"
            )
        inflater = raw_inflater() if member.method == zipfile.ZIP_DEFLATED else None
        while left > 0 and not (inflater and inflater.eof):
            raw = stream.read(min(CHUNK, left))
            if not raw:
                raise BadInput(f"{self.what} is cut off inside {member.name!r}", remedy="download it again")
            left -= len(raw)
            if inflater is None:
                yield raw
                continue
            try:
                while raw and not inflater.eof:
                    yield inflater.decompress(raw, MAX_PIECE)
                    raw = inflater.unconsumed_tail
            except Damaged as error:
                raise BadInput(
                    f"{self.what}: {member.name!r} is damaged ({error})", remedy="download it again"
                ) from error
        if inflater is not None:
            while tail := inflater.decompress(inflater.unconsumed_tail, MAX_PIECE):
                yield tail

    @functools.cached_property
    def dist_info(self) -> str | None:
        """The top-level ``NAME-VERSION.dist-info`` directory."""
        tops = {name.split("/", 1)[0] for name in self.members if "/" in name}
        found = sorted(top for top in tops if top.endswith(".dist-info"))
        return found[0] if found else None

    def headers(self, file: str) -> list[tuple[str, str]]:
        """The header fields of METADATA or WHEEL; empty where the file is missing."""
        raw = self.find(f"{self.dist_info}/{file}") if self.dist_info else None
        return [] if raw is None else read_headers(raw)

    @functools.cached_property
    def record(self) -> dict[str, RecordRow] | None:
        """RECORD, or None where the wheel has none."""
        raw = self.find(f"{self.dist_info}/RECORD") if self.dist_info else None
        return None if raw is None else read_record(raw.decode("utf-8", "replace"))


def read_headers(raw: bytes) -> list[tuple[str, str]]:
    """The fields of METADATA or WHEEL, in order; some come more than once."""
    parsed = HeaderParser().parsestr(raw.decode("utf-8", "replace"))
    return [(key, str(value)) for key, value in parsed.items()]


def read_record(text: str) -> dict[str, RecordRow]:
    """RECORD lines that cannot be understood keep no digest: the check then calls them unverified."""
    rows: dict[str, RecordRow] = {}
    for line in csv.reader(io.StringIO(text, newline="")):
        if not line:
            continue
        algorithm, _, encoded = (line[1] if len(line) > 1 else "").partition("=")
        try:
            digest = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)) if encoded else None
        except (binascii.Error, ValueError):
            digest = None
        size = line[2] if len(line) > 2 else ""
        rows[line[0]] = RecordRow(algorithm or None, digest, int(size) if size.isdecimal() else None)
    return rows


def _why_no_zip(head: bytes, what: str, error: Exception) -> str:
    if not head:
        return f"{what} is empty (0 bytes)"
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return f"{what} is a web page, not a wheel: the download got an error page"
    if head[:4] == b"PK\x03\x04":
        return f"{what} is a damaged or truncated zip file ({error})"
    return f"{what} is no wheel ({error})"
