"""A wheel from a stranger, checked before it is let in: names agree, every member matches RECORD.

Nothing is unpacked. Members are streamed, so memory stays small; sizes and counts are bounded, so a zip
bomb or a million empty members is refused quickly.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import unicodedata
import zipfile
import zlib
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rekindle.errors import BadInput
from rekindle.formats.wheel import check_wheel
from rekindle.index.wheelhouse.names import WheelName, normal_project, parse_name
from rekindle.model.progress import Progress, Silent

MAX_MEMBERS = 200_000
MAX_METADATA = 4 << 20
MAX_RECORD = 64 << 20
# The largest published torch wheels unpack to 4 GB; four times that is no wheel we know.
MAX_UNPACKED = 32 << 30
_CHUNK = 1 << 20
_END = b"PK\x05\x06"


@dataclass(frozen=True, kw_only=True)
class ReadWheel:
    """What a checked wheel says about itself."""

    name: WheelName
    metadata: bytes
    requires_python: str | None
    warnings: tuple[str, ...]


def read_wheel(path: Path, *, file: str | None = None, progress: Progress | None = None) -> ReadWheel:
    """Check a wheel whole; any fault is a :class:`BadInput` that says which member or field is wrong."""
    name = parse_name(file or path.name)
    try:
        check_wheel(path, what=file)
        with zipfile.ZipFile(path) as archive:
            return _check(archive, name, progress or Silent())
    # OSError too: offsets in a damaged directory make zipfile seek to where no file goes.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError, KeyError) as error:
        raise BadInput(f"{name.file} is no readable wheel: {error}", remedy="download or build it again") from error
    except RuntimeError as error:  # zipfile's word for "encrypted"
        raise BadInput(f"{name.file} is no readable wheel: {error}") from error


def _check(archive: zipfile.ZipFile, name: WheelName, progress: Progress) -> ReadWheel:
    members = [info for info in archive.infolist() if not info.is_dir()]
    if sum(info.file_size for info in members) > MAX_UNPACKED:
        raise BadInput(f"{name.file} unpacks to more than {MAX_UNPACKED >> 30} GiB, which no wheel here does")
    seen: set[str] = set()
    _check_whole(archive, name.file)
    for info in members:
        _safe_member(info.filename, name)
        if info.filename in seen:
            raise BadInput(f"{name.file} holds {info.filename!a} twice; installers would disagree about it")
        seen.add(info.filename)
    folder = _dist_info(seen, name)
    metadata = _small(archive, f"{folder}/METADATA", MAX_METADATA, name.file)
    requires_python = _check_metadata(metadata, name)
    _check_bills(archive, folder, seen, name.file)
    wheel = BytesHeaderParser().parsebytes(_small(archive, f"{folder}/WHEEL", MAX_METADATA, name.file))
    warnings = []
    # Published torch wheels up to 2.6.0 were retagged by renaming, so this cannot be an error.
    inside = {str(tag).strip() for tag in wheel.get_all("Tag", [])}
    if inside and not inside & set(name.tag_strings):
        warnings.append(f"the file name says {name.tag_strings[0]}, its WHEEL file {sorted(inside)[0][:80]}")
    _check_record(archive, folder, members, name.file, progress)
    return ReadWheel(name=name, metadata=metadata, requires_python=requires_python, warnings=tuple(warnings))


# Names that Windows keeps for devices, whatever their ending.
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(?: *[.:].*)?", re.IGNORECASE)
_GIT = re.compile(r"(?:\.git|git~\d+)[ .]*", re.IGNORECASE)


def _safe_member(member: str, name: WheelName) -> None:
    path = PurePosixPath(member)
    if path.is_absolute() or ".." in path.parts or "\\" in member or "\0" in member or ":" in path.parts[0]:
        raise BadInput(f"{name.file} holds a member that would leave its directory: {ascii(member)[:120]}")
    # Control characters, marks that turn text round, letters that are not seen: shown otherwise than they are.
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in member):
        raise BadInput(f"{name.file} holds a name that cannot be shown as it is: {ascii(member)[:120]}")
    if any(_GIT.fullmatch(part) for part in path.parts):
        raise BadInput(f"{name.file} holds git's own files: {ascii(member)[:120]}")
    for_windows = any(system in ("windows", "any") for system in name.systems)
    if for_windows and any(_RESERVED.fullmatch(part) or part[-1] in " ." for part in path.parts):
        raise BadInput(f"{name.file} holds a name that Windows keeps for itself: {ascii(member)[:120]}")


def _check_whole(archive: zipfile.ZipFile, file: str) -> None:
    """An archive begins with its first member: before it another file, or another wheel, could hide."""
    first = min((info.header_offset for info in archive.infolist()), default=0)
    if first:
        raise BadInput(f"{file} has {first} bytes before its first member; a wheel begins with it")


def _check_bills(archive: zipfile.ZipFile, folder: str, members: set[str], file: str) -> None:
    """A bill of materials that cannot be read says nothing, and looks as if it did."""
    for member in sorted(name for name in members if name.startswith(f"{folder}/sboms/") and name.endswith(".json")):
        try:
            json.loads(_small(archive, member, MAX_METADATA * 4, file))
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{file}: the bill of materials {ascii(member)[:120]} is not readable: {error}") from error


def _dist_info(members: set[str], name: WheelName) -> str:
    folders = {member.split("/", 1)[0] for member in members if member.split("/", 1)[0].endswith(".dist-info")}
    if len(folders) != 1:
        raise BadInput(f"{name.file} has {len(folders)} .dist-info directories; a wheel has one")
    folder = folders.pop()
    project, _, version = folder.removesuffix(".dist-info").rpartition("-")
    if not _agrees(project, version, name):
        raise BadInput(
            f"{name.file} contains {ascii(folder)[:120]}: the name outside and inside disagree",
            remedy="rename the file to what it contains",
        )
    return folder


def _agrees(project: str, version: str, name: WheelName) -> bool:
    try:
        return normal_project(project) == name.project and Version(version) == name.version
    except InvalidVersion:
        return False


def _small(archive: zipfile.ZipFile, member: str, limit: int, file: str) -> bytes:
    try:
        with archive.open(member) as stream:
            data = stream.read(limit + 1)
    except KeyError:
        raise BadInput(f"{file} has no {member}, so it is no wheel") from None
    if len(data) > limit:
        raise BadInput(f"{file}: {member} is larger than {limit >> 20} MiB")
    return data


def _check_metadata(raw: bytes, name: WheelName) -> str | None:
    fields = BytesHeaderParser().parsebytes(raw)
    project, version = str(fields.get("Name", "")), str(fields.get("Version", ""))
    if not _agrees(project, version, name):
        raise BadInput(
            f"{name.file} says inside that it is {ascii(project)[:80]} {ascii(version)[:40]}",
            remedy="rename the file to what it contains",
        )
    for requirement in fields.get_all("Requires-Dist", []):
        try:
            Requirement(str(requirement))
        except InvalidRequirement as error:
            text = f"{name.file}: Requires-Dist {ascii(str(requirement))[:120]} is not readable"
            raise BadInput(text, remedy="installers would refuse the wheel; build it again") from error
    requires = fields.get("Requires-Python")
    if requires is None:
        return None
    try:
        return str(SpecifierSet(str(requires)))
    except InvalidSpecifier as error:
        raise BadInput(f"{name.file}: Requires-Python is not readable: {error}") from error


def _check_record(
    archive: zipfile.ZipFile, folder: str, members: list[zipfile.ZipInfo], file: str, progress: Progress
) -> None:
    text = _small(archive, f"{folder}/RECORD", MAX_RECORD, file).decode("utf-8", "replace")
    rows = {row[0]: row for row in csv.reader(io.StringIO(text)) if len(row) >= 3}
    exempt = {f"{folder}/RECORD", f"{folder}/RECORD.jws", f"{folder}/RECORD.p7s"}
    total, done = sum(info.file_size for info in members) or 1, 0
    for info in members:
        if info.filename in exempt:
            continue
        row = rows.get(info.filename)
        if row is None:
            raise BadInput(f"{file}: {ascii(info.filename)[:120]} is not listed in RECORD")
        kind, _, expected = row[1].partition("=")
        if kind not in ("sha256", "sha384", "sha512"):
            raise BadInput(f"{file}: RECORD gives {ascii(info.filename)[:120]} no hash that counts")
        digest = hashlib.new(kind)
        with archive.open(info) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                progress.step(done, total, info.filename)
        actual = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
        if actual != expected:
            raise BadInput(
                f"{file}: {ascii(info.filename)[:120]} does not match its hash in RECORD",
                remedy="the file was damaged or changed after it was built; get or build it again",
            )
    missing = set(rows) - {info.filename for info in members}
    if missing:
        raise BadInput(f"{file}: RECORD lists {ascii(sorted(missing)[0])[:120]}, which is not in the wheel")
