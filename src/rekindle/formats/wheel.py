"""A wheel as a zip archive from a stranger: members, their bytes, METADATA, WHEEL and RECORD.

Nothing is extracted by name, so nothing can escape; still escaping, doubled or encrypted members are refused, because
what pip would install is not what we read. Members may not share bytes or be too many; inflating is bounded by the size
the directory declares, that by what real wheels reach. :func:`check_wheel` is the door for every verb that carries on
or installs a wheel."""

import base64
import binascii
import csv
import functools
import hashlib
import io
import os
import stat
import struct
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import BinaryIO

from rekindle.errors import BadInput, reading
from rekindle.formats.view import CHUNK
from rekindle.formats.zip_directory import Damaged, check_count, crc32, raw_inflater

MAX_PIECE = 1 << 23
MAX_SMALL = 64 << 20
# Real CUDA wheels inflate 2 to 4 times, their largest library holds under 3 GiB.
MAX_RATIO = 120
RATIO_FROM = 64 << 20
MAX_TOTAL = 64 << 30
# A whole torch has 13,000; every name costs memory in each of our tables.
MAX_MEMBERS = 100_000
MAX_TOTAL_RATIO = 60
TOTAL_RATIO_FROM = 256 << 20
MAX_HEADERS = 4 << 20
MAX_RECORD = 32 << 20
MAX_NAME = 1024
_LOCAL = struct.Struct("<4s22xHH")
_AGAIN = "download it again"
# What zipfile raises at bytes that are no archive.
_NO_ZIP = (zipfile.BadZipFile, struct.error, ValueError, NotImplementedError, OverflowError, EOFError)


@dataclass(frozen=True, slots=True)
class Member:
    """A file of the archive: its ``size``, how many bytes of it are ``stored`` and by which method, where its local
    ``header`` begins; ``mode`` as Unix has it, ``raw_name`` as it stands in the directory."""

    name: str
    size: int
    stored: int
    method: int
    crc: int
    header: int
    mode: int = 0
    raw_name: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordRow:
    """One line of RECORD; ``digest`` is None where the format leaves it out (RECORD itself)."""

    algorithm: str | None
    digest: bytes | None
    size: int | None


class WheelZip:
    """``opener`` gives a fresh seekable stream each time, so that several threads can inflate at once."""

    def __init__(self, opener: Callable[[], BinaryIO], what: str) -> None:
        self.what, self._open = what, opener
        with opener() as stream:
            head = stream.read(512)
            try:
                check_count(stream, what, MAX_MEMBERS)
                length = stream.seek(0, os.SEEK_END)
                with zipfile.ZipFile(stream) as archive:
                    infos = archive.infolist()
            except _NO_ZIP as error:
                raise BadInput(_why_no_zip(head, what, error), remedy=_AGAIN) from error
        self.members: dict[str, Member] = {}
        for member in map(self._member, infos):
            if self.members.setdefault(member.name, member) is not member:
                double = member.name[:200]
                raise BadInput(f"{what} holds two members called {double!r}; which one counts is anyone's guess")
        total = sum(member.size for member in self.members.values())
        if total > MAX_TOTAL or (total > TOTAL_RATIO_FROM and total > MAX_TOTAL_RATIO * length):
            raise BadInput(f"{what} would unpack its {length} bytes to {total >> 20} MiB; it is no wheel worth reading")
        # Members that overlap make a small file inflate without end (and hide one file inside another).
        end, last = 0, ""
        for member in sorted(self.members.values(), key=lambda member: member.header):
            if member.header < end:
                raise BadInput(f"{what}: {member.name[:200]!r} lies inside {last[:200]!r}; no wheel does that")
            end, last = member.header + _LOCAL.size + member.stored, member.name
        if end > length:
            raise BadInput(f"{what} is cut off inside {last[:200]!r}", remedy=_AGAIN)

    def _member(self, info: zipfile.ZipInfo) -> Member:
        # The name as the archive has it: on Windows zipfile makes a backslash a slash, and the answer would differ.
        stored = info.orig_filename.split("\0")[0]
        name, what = stored if info.filename == stored.replace("\\", "/") else info.filename, self.what
        parts = name.replace("\\", "/").split("/")
        if ".." in parts or name[:1] in ("/", "\\") or ":" in parts[0]:
            raise BadInput(f"{what} has a member {name[:200]!r} that would be written outside the installation")
        if not name.strip("/") or "." in parts or "" in parts[:-1] or len(name) > MAX_NAME or "\0" in name:
            raise BadInput(f"{what} has a member called {name[:200]!r}, which is no file's name")
        if info.flag_bits & 0x1:
            raise BadInput(f"{what} is encrypted ({name!r}); wheels never are")
        sizes = (info.file_size, info.compress_size)
        if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * info.compress_size:
            raise BadInput(f"{what}: {name!r} would inflate {sizes[1]} bytes to {sizes[0]}; that is a zip bomb")
        raw = info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437", "replace")
        return Member(name, *sizes, info.compress_type, info.CRC, info.header_offset, info.external_attr >> 16, raw)

    def read(self, name: str, limit: int = MAX_SMALL) -> bytes:
        out, member = bytearray(), self.members[name]
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

    def heads(self, names: Iterable[str], size: int) -> Iterator[tuple[str, bytes]]:
        """(name, first bytes) of many members through one stream; their checksums are not looked at."""
        with self._open() as stream:
            for member in sorted((self.members[name] for name in names), key=lambda member: member.header):
                head = b""
                for piece in self._pieces(stream, member, least=size):
                    head += piece
                    if len(head) >= size:
                        break
                yield member.name, head[:size]

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
            raise BadInput(f"{self.what}: {name!r} is damaged (size or checksum differ)", remedy=_AGAIN)
        return digest.hexdigest()

    def begins(self, name: str) -> int:
        """Where a member's stored bytes begin in the file."""
        with self._open() as stream:
            return self._seek(stream, self.members[name])

    def stored(self, name: str, begins: int, at: int, size: int) -> bytes:
        """Some of a member's bytes as they are stored, deflated or not."""
        with self._open() as stream:
            stream.seek(begins + at)
            return stream.read(max(0, min(size, self.members[name].stored - at)))

    def _seek(self, stream: BinaryIO, member: Member) -> int:
        """Go to a member's stored bytes, past a header that must be its own."""
        # A damaged directory may point before the file begins.
        stream.seek(max(0, member.header))
        header = stream.read(_LOCAL.size) if member.header >= 0 else b""
        if len(header) < _LOCAL.size or header[:4] != b"PK\x03\x04":
            raise BadInput(f"{self.what}: nothing is stored where {member.name!r} should begin", remedy=_AGAIN)
        _, name_length, extra_length = _LOCAL.unpack(header)
        if stream.read(name_length) != member.raw_name:
            raise BadInput(f"{self.what}: {member.name[:200]!r} is stored under another name than the directory gives")
        return stream.seek(member.header + _LOCAL.size + name_length + extra_length)

    def _pieces(self, stream: BinaryIO, member: Member, *, least: int = CHUNK) -> Iterator[bytes]:
        """``least``: how many bytes are wanted at all; no more than these and a page are read at once."""
        self._seek(stream, member)
        left = member.stored
        if (method := member.method) not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadInput(f"{self.what}: {member.name!r} is compressed with method {method}; wheels use deflate")
        inflater = raw_inflater() if member.method == zipfile.ZIP_DEFLATED else None
        while left > 0 and not (inflater and inflater.eof):
            if not (raw := stream.read(min(CHUNK, left, least + 4096))):
                raise BadInput(f"{self.what} is cut off inside {member.name!r}", remedy=_AGAIN)
            left -= len(raw)
            if inflater is None:
                yield raw
                continue
            try:
                while raw and not inflater.eof:
                    yield inflater.decompress(raw, MAX_PIECE)
                    raw = inflater.unconsumed_tail
            except Damaged as error:
                raise BadInput(f"{self.what}: {member.name!r} is damaged ({error})", remedy=_AGAIN) from error
        if inflater is not None:
            while tail := inflater.decompress(inflater.unconsumed_tail, MAX_PIECE):
                yield tail

    @functools.cached_property
    def dist_info(self) -> str | None:
        """The top-level ``NAME-VERSION.dist-info`` directory."""
        tops = {name.partition("/")[0] for name in self.members if "/" in name}
        folders = sorted(top for top in tops if top.endswith(".dist-info"))
        return folders[0] if folders else None

    @functools.cached_property
    def unlisted(self) -> frozenset[str]:
        """What RECORD need not give a hash of: itself, and signatures over it."""
        return frozenset(f"{self.dist_info}/RECORD{ending}" for ending in ("", ".jws", ".p7s"))

    def headers(self, file: str) -> list[tuple[str, str]]:
        """The header fields of METADATA or WHEEL; empty where the file is missing."""
        raw = self.find(f"{self.dist_info}/{file}", MAX_HEADERS) if self.dist_info else None
        return [] if raw is None else read_headers(raw)

    @functools.cached_property
    def record(self) -> dict[str, RecordRow] | None:
        """RECORD, or None where the wheel has none."""
        raw = self.find(f"{self.dist_info}/RECORD", MAX_RECORD) if self.dist_info else None
        return None if raw is None else read_record(raw.decode("utf-8", "replace"), self.what)

    def check_installable(self) -> None:
        """Refuse what no installer may get: links, devices, names that are one file on some disks."""
        folded: dict[str, str] = {}
        for member in self.members.values():
            kind = stat.S_IFMT(member.mode)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise BadInput(f"{self.what}: {member.name!r} is a link or a device; a wheel holds files only")
            if "\\" in member.name:
                raise BadInput(f"{self.what}: {member.name!r} has a backslash, which is a folder on Windows")
            key = unicodedata.normalize("NFC", member.name.rstrip("/")).casefold()
            other = folded.setdefault(key, member.name)
            if other != member.name:
                raise BadInput(f"{self.what}: {other!r} and {member.name!r} are one file on Windows and macOS")
        # A file that another entry uses as its folder cannot be both.
        for name in folded:
            parent = name.rpartition("/")[0]
            if parent in folded and not folded[parent].endswith("/"):
                raise BadInput(f"{self.what}: {folded[parent]!r} is a file and a folder at once")

    def check_listed(self) -> None:
        """Refuse a wheel whose RECORD leaves files out: nothing would notice if they were exchanged."""
        rows, exempt = self.record, self.unlisted
        metadata = self.find(f"{self.dist_info}/METADATA", MAX_HEADERS)
        try:
            (metadata or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"{self.what}: METADATA is no UTF-8 text, which it must be") from error
        if rows is None:
            raise BadInput(f"{self.what} has no RECORD, so nothing says what belongs to it")
        unlisted = [name for name in self.members if name not in rows and name not in exempt and name[-1] != "/"]
        if unlisted:
            raise BadInput(f"{self.what}: {unlisted[0]!r} is not listed in RECORD")
        if bare := [name for name, row in rows.items() if row.digest is None and name not in exempt]:
            raise BadInput(f"{self.what}: RECORD gives {bare[0][:200]!r} no hash that can be read")


def check_wheel(path: Path, *, listed: bool = True, what: str | None = None) -> WheelZip:
    """A wheel with all but its contents checked, in seconds whatever is in it; ``what`` is its name for messages."""
    with reading(path):
        wheel = WheelZip(lambda: path.open("rb"), what or path.name)
    wheel.check_installable()
    for name, limit in (("RECORD", MAX_RECORD), ("METADATA", MAX_HEADERS), ("WHEEL", MAX_HEADERS)):
        # Installers read these whole.
        for member in wheel.members.values():
            if member.size > limit and member.name.endswith(f".dist-info/{name}"):
                raise BadInput(f"{wheel.what}: {member.name!r} is {member.size} bytes, larger than such a file ever is")
    if listed:
        wheel.check_listed()
    return wheel


def read_headers(raw: bytes) -> list[tuple[str, str]]:
    """The fields of METADATA or WHEEL, in order; some come more than once."""
    return [(key, str(value)) for key, value in HeaderParser().parsestr(raw.decode("utf-8", "replace")).items()]


def read_record(text: str, what: str = "RECORD") -> dict[str, RecordRow]:
    """RECORD lines that cannot be understood keep no digest: the check then calls them unverified."""
    rows: dict[str, RecordRow] = {}
    try:
        lines = csv.reader(io.StringIO(text, newline=""), strict=True)
        for line in lines:
            if line:
                rows[line[0]] = _parse_row(line)
            if len(rows) > 2 * MAX_MEMBERS:
                raise BadInput(f"{what}: RECORD has more than {2 * MAX_MEMBERS} rows; it is not read")
    except csv.Error as error:
        raise BadInput(f"{what}: RECORD cannot be read ({error})") from error
    return rows


def _parse_row(line: list[str]) -> RecordRow:
    algorithm, _, encoded = (line[1] if len(line) > 1 else "").partition("=")
    try:
        digest = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)) if encoded else None
    except (binascii.Error, ValueError):
        digest = None
    size = line[2] if len(line) > 2 else ""
    # Sizes beyond 18 digits are no sizes, and Python refuses to read numbers of thousands of digits.
    plain = size.isascii() and size.isdecimal() and len(size) < 19
    return RecordRow(algorithm or None, digest, int(size) if plain else None)


def _why_no_zip(head: bytes, what: str, error: Exception) -> str:
    if not head:
        return f"{what} is empty (0 bytes)"
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return f"{what} is a web page, not a wheel: the download got an error page"
    if head[:4] == b"PK\x03\x04":
        return f"{what} is a damaged or truncated zip file ({error})"
    return f"{what} is no wheel ({error})"
