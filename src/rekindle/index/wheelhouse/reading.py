"""A wheel from a stranger, checked before it is let in: its name, then its content against RECORD.

A file name is parsed and judged before it touches the disk: only one that packaging accepts, that is a plain file name
and spelt in the narrow alphabet of the wheel specification becomes a ``WheelName``; ``../``, separators, control
characters and markup never do. Nothing is unpacked: :class:`~rekindle.formats.wheel.WheelZip` reads it, within bounds.
"""

import contextlib
import hashlib
import json
import re
import unicodedata
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from rekindle.errors import BadInput
from rekindle.formats.wheel import Member, WheelZip, check_wheel
from rekindle.host.files import is_git_name, is_reserved_name
from rekindle.host.text import version_key
from rekindle.model.progress import Progress, Silent

# The largest published torch wheels unpack to 4 GB; four times that is no wheel we know.
MAX_UNPACKED = 32 << 30
# The longest file name that common file systems take, less room for ".metadata" and temporary suffixes.
MAX_NAME = 200
_ALPHABET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.whl")
_PROJECT = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class WheelName:
    """What a wheel's file name says."""

    file: str
    project: str
    version: Version
    tags: tuple[Tag, ...]

    @property
    def tag_strings(self) -> tuple[str, ...]:
        """As the file name writes them, one by one."""
        return tuple(sorted(str(tag) for tag in self.tags))

    @property
    def pythons(self) -> tuple[str, ...]:
        """``cp311`` as ``3.11``; ``py3`` and ``cp3x-abi3`` stay as they are."""
        return tuple(sorted({_python(tag) for tag in self.tags}, key=version_key))

    @property
    def systems(self) -> tuple[str, ...]:
        """linux, windows, macos or any."""
        return tuple(sorted({_platform(tag.platform)[0] for tag in self.tags}))

    @property
    def machines(self) -> tuple[str, ...]:
        """Processor architectures, or any."""
        return tuple(sorted({_platform(tag.platform)[1] for tag in self.tags}))


def parse_name(file: str) -> WheelName:
    """What a wheel's file name says; a :class:`BadInput` where it is no wheel's name."""
    shown = ascii(file)[:120]
    if len(file) > MAX_NAME:
        raise BadInput(f"a wheel's file name has at most {MAX_NAME} characters, this has {len(file)}: {shown}")
    if not _ALPHABET.fullmatch(file):
        raise BadInput(
            f"{shown} is no wheel's file name",
            remedy="it must look like torch-2.6.0-cp311-cp311-linux_x86_64.whl (letters, digits, . _ + ! - only)",
        )
    try:
        project, version, _, tags = parse_wheel_filename(file)
    except (InvalidWheelFilename, InvalidVersion) as error:
        text = f"{shown} is no wheel's file name: {error}"
        raise BadInput(text, remedy="rebuild or rename it as the wheel specification says") from error
    if not _PROJECT.fullmatch(project):
        raise BadInput(f"{shown} names no project that an index can list")
    return WheelName(file=file, project=project, version=version, tags=tuple(sorted(tags, key=str)))


def _python(tag: Tag) -> str:
    match = re.fullmatch(r"cp(\d)(\d+)", tag.interpreter)
    if not match or tag.abi == "abi3":
        return f"{tag.interpreter}-abi3" if match else tag.interpreter
    free_threaded = "t" if tag.abi.endswith("t") else ""
    return f"{match[1]}.{match[2]}{free_threaded}"


def _platform(tag: str) -> tuple[str, str]:
    """``manylinux_2_28_x86_64`` -> ("linux", "x86_64")."""
    if tag == "any":
        return "any", "any"
    if tag.startswith("win"):
        return "windows", {"win_amd64": "x86_64", "win_arm64": "aarch64", "win32": "x86"}.get(tag, tag)
    system = "macos" if tag.startswith("macosx") else "linux" if "linux" in tag else tag
    machine = re.search(r"(x86_64|aarch64|arm64|universal2|i686|ppc64le|s390x|armv7l|riscv64)$", tag)
    return system, {"arm64": "aarch64"}.get(machine[1], machine[1]) if machine else tag


@dataclass(frozen=True, kw_only=True)
class ReadWheel:
    """What a checked wheel says about itself."""

    name: WheelName
    metadata: bytes
    requires_python: str | None
    warnings: tuple[str, ...]


def read_wheel(path: Path, progress: Progress | None = None) -> ReadWheel:
    """Check a wheel whole; any fault is a :class:`BadInput` that says which member or field is wrong."""
    name = parse_name(path.name)
    try:
        return _check_content(check_wheel(path, what=name.file), name, progress or Silent())
    # Offsets in a damaged directory lead to where no file goes.
    except (OSError, ValueError) as error:
        raise BadInput(f"{name.file} is no readable wheel: {error}", remedy="download or build it again") from error


def _check_content(wheel: WheelZip, name: WheelName, progress: Progress) -> ReadWheel:
    members = {member.name: member for member in wheel.members.values() if not member.name.endswith("/")}
    if sum(member.size for member in members.values()) > MAX_UNPACKED:
        raise BadInput(f"{name.file} unpacks to more than {MAX_UNPACKED >> 30} GiB, which no wheel here does")
    if first := min(member.header for member in wheel.members.values()):
        # Before it another file, or another wheel, could hide.
        raise BadInput(f"{name.file} has {first} bytes before its first member; a wheel begins with it")
    for member in members:
        _check_member_name(member, name)
    folder = _dist_info(wheel, name)
    metadata = _read_member(wheel, f"{folder}/METADATA")
    requires_python = _check_metadata(metadata, name)
    _check_bills(wheel, folder)
    tags = BytesHeaderParser().parsebytes(_read_member(wheel, f"{folder}/WHEEL")).get_all("Tag", [])
    inside, warnings = {str(tag).strip() for tag in tags}, []
    # Published torch wheels up to 2.6.0 were retagged by renaming, so this cannot be an error.
    if inside and not inside & set(name.tag_strings):
        warnings.append(f"the file name says {name.tag_strings[0]}, its WHEEL file {min(inside)[:80]}")
    _check_record(wheel, members, progress)
    return ReadWheel(name=name, metadata=metadata, requires_python=requires_python, warnings=tuple(warnings))


def _check_member_name(member: str, name: WheelName) -> None:
    """What :class:`WheelZip` lets pass and an index should not: names that lie, or mean something else elsewhere."""
    # Control characters, marks that turn text round, letters that are not seen: shown otherwise than they are.
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in member):
        raise BadInput(f"{name.file} holds a name that cannot be shown as it is: {ascii(member)[:120]}")
    parts = member.split("/")
    if any(map(is_git_name, parts)):
        raise BadInput(f"{name.file} holds git's own files: {ascii(member)[:120]}")
    for_windows = any(system in ("windows", "any") for system in name.systems)
    if for_windows and any(map(is_reserved_name, parts)):
        raise BadInput(f"{name.file} holds a name that Windows keeps for itself: {ascii(member)[:120]}")


def _check_bills(wheel: WheelZip, folder: str) -> None:
    """A bill of materials that cannot be read says nothing, and looks as if it did."""
    for member in sorted(wheel.members):
        if member.startswith(f"{folder}/sboms/") and member.endswith(".json"):
            try:
                json.loads(wheel.read(member))
            except (ValueError, RecursionError) as error:
                text = f"{wheel.what}: the bill of materials {ascii(member)[:120]} is not readable: {error}"
                raise BadInput(text) from error


def _dist_info(wheel: WheelZip, name: WheelName) -> str:
    folders = {member.split("/", 1)[0] for member in wheel.members if member.split("/", 1)[0].endswith(".dist-info")}
    if len(folders) != 1:
        raise BadInput(f"{name.file} has {len(folders)} .dist-info directories; a wheel has one")
    folder = folders.pop()
    project, _, version = folder.removesuffix(".dist-info").rpartition("-")
    said = f"contains {ascii(folder)[:120]}: the name outside and inside disagree"
    _check_release(project, version, name, said)
    return folder


def _check_release(project: str, version: str, name: WheelName, said: str) -> None:
    with contextlib.suppress(ValueError):  # no version, or a number of more digits than Python reads
        if canonicalize_name(project) == name.project and Version(version) == name.version:
            return
    raise BadInput(f"{name.file} {said}", remedy="rename the file to what it contains")


def _read_member(wheel: WheelZip, member: str) -> bytes:
    if (raw := wheel.find(member)) is None:
        raise BadInput(f"{wheel.what} has no {member}, so it is no wheel")
    return raw


def _check_metadata(raw: bytes, name: WheelName) -> str | None:
    fields = BytesHeaderParser().parsebytes(raw)
    project, version = str(fields.get("Name", "")), str(fields.get("Version", ""))
    _check_release(project, version, name, f"says inside that it is {ascii(project)[:80]} {ascii(version)[:40]}")
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


def _check_record(wheel: WheelZip, members: dict[str, Member], progress: Progress) -> None:
    """Every member against its hash; that each of them has one was checked before it was opened."""
    rows = wheel.record or {}
    total, done = sum(member.size for member in members.values()), 0
    for name, member in members.items():
        if name in wheel.unlisted:
            continue
        kind = rows[name].algorithm
        if kind not in ("sha256", "sha384", "sha512"):
            raise BadInput(f"{wheel.what}: RECORD gives {ascii(name)[:120]} no hash that counts")
        digest = hashlib.new(kind)
        wheel.inflate(name, digest.update)
        done += member.size
        progress.step(done, total, name)
        if digest.digest() != rows[name].digest:
            text = f"{wheel.what}: {ascii(name)[:120]} does not match its hash in RECORD"
            raise BadInput(text, remedy="the file was damaged or changed after it was built; get or build it again")
    if missing := set(rows) - members.keys():
        raise BadInput(f"{wheel.what}: RECORD lists {ascii(sorted(missing)[0])[:120]}, which is not in the wheel")
