"""A graft file: only the new entries and the digest of the wheel they belong to, so megabytes instead of the wheel.

A zip archive with ``graft.json`` (:class:`GraftFile`) and one member per entry under ``code/``. Read from a stranger it
is checked whole before anything is done with it: sizes, digests, architectures, and that nothing else is inside.
"""

import hashlib
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from rekindle.errors import BadInput, reading
from rekindle.formats import fatbin
from rekindle.formats.cubin import other_arch
from rekindle.formats.offload import object_chip
from rekindle.formats.rewrite import new_member
from rekindle.formats.view import Malformed
from rekindle.formats.wheel import WheelZip
from rekindle.graft import Code
from rekindle.host.files import whole_file
from rekindle.model.arch import Gfx, GpuArch, Sm, parse_gpu_arch
from rekindle.model.document import decode, encode
from rekindle.model.graft import GraftFile, Making, NewEntry

MANIFEST = "graft.json"
MAX_MANIFEST = 32 << 20
MAX_ENTRIES = 100_000
_MEMBER = re.compile(r"code/\d{1,6}-\d{1,6}-(sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4})")


def finished_entry(image: bytes, arch: GpuArch, *, compression: str = "none") -> bytes:
    """An entry of a cubin, or the one entry of a fat binary made by NVIDIA's tool, or AMD's code object as it is;
    refused where it is for another architecture than it is filed under."""
    if not isinstance(arch, Sm):
        check_object(image, arch)
        return image
    if image[:4] != fatbin.MAGIC:
        if (wrong := other_arch(image, arch)) is not None:
            raise Malformed(f"a new image cannot be taken: {wrong}")
        return fatbin.write_entry(image, arch, compression=compression)
    entry = _check_entry(image, arch, "a new fat binary")
    return image[entry.offset : entry.offset + entry.header + entry.size]


def _check_entry(data: bytes, arch: Sm, what: str) -> fatbin.Entry:
    """The one entry, which must be machine code for ``arch`` in its header and in its image."""
    entries = [entry for container in fatbin.read_containers(data, 0, len(data), what) for entry in container.entries]
    if len(entries) != 1:
        raise Malformed(f"{what} holds {len(entries)} entries instead of one")
    entry = entries[0]
    if entry.kind != "sass" or entry.arch != arch:
        raise Malformed(f"an entry is {entry.name} ({entry.kind}), not machine code for {arch}")
    if (wrong := other_arch(fatbin.read_image(data, entry, "a new entry"), arch)) is not None:
        raise Malformed(f"an entry for {arch} cannot be taken: {wrong}")
    return entry


def check_object(image: bytes, arch: GpuArch) -> None:
    """Is this a code object for the chip ``arch``?"""
    if not isinstance(arch, Gfx) or object_chip(image) != arch.name:
        raise Malformed(f"a code object is for {object_chip(image) or 'no chip that is known'}, not {arch}")


def write_graft(
    target: Path,
    wheel: Path,
    wheel_sha256: str,
    code: Code,
    made: Making,
    *,
    version: str,
    compression: str = "none",
    hosts: Mapping[str, int] | None = None,
) -> None:
    """The graft file for ``wheel``. ``hosts``: by library, the flags of an entry it has, which name the host's system
    (Windows' libraries are written here, too). What it left out and what applying it gives is added later."""
    name, *_ = parse_wheel_filename(wheel.name)
    holders = sorted({library for library, _ in code})
    rows: list[NewEntry] = []
    members: dict[str, bytes] = {}
    for (library, container), images in sorted(code.items()):
        for arch, image in sorted(images.items()):
            entry = finished_entry(image, arch, compression=compression)
            if hosts and library in hosts and isinstance(arch, Sm):
                entry = fatbin.set_host(entry, hosts[library])
            member, sha256 = f"code/{holders.index(library)}-{container}-{arch}", hashlib.sha256(entry).hexdigest()
            members[member] = entry
            size, code_for = len(entry), str(arch)
            rows.append(
                NewEntry(library=library, container=container, arch=code_for, member=member, bytes=size, sha256=sha256)
            )
    graft = GraftFile(
        wheel=wheel.name,
        wheel_sha256=wheel_sha256,
        wheel_bytes=wheel.stat().st_size,
        name=str(name),
        version=version,
        made=made,
        entries=tuple(rows),
    )
    write_archive(target, graft, members)


def write_archive(target: Path, graft: GraftFile, members: Mapping[str, bytes]) -> None:
    """What a graft file holds, its list first."""
    with whole_file(target) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in {MANIFEST: encode(graft), **members}.items():
            archive.writestr(new_member(name), content)


def read_graft(path: Path) -> tuple[GraftFile, dict[str, bytes]]:
    """A graft file, checked whole: what it says and the entries by their member's name."""
    what = path.name
    with reading(path):
        archive = WheelZip(lambda: path.open("rb"), what)
    if MANIFEST not in archive.members:
        raise BadInput(f"{what} is no graft file: it holds no {MANIFEST}", remedy="rekindle graft make writes them")
    graft = decode(archive.read(MANIFEST, MAX_MANIFEST), GraftFile, origin=f"{what}: {MANIFEST}")
    try:
        parse_wheel_filename(graft.wheel)
    except InvalidWheelFilename as error:
        raise BadInput(f"{what} names no wheel: {graft.wheel[:200]!r}") from error
    if len(graft.entries) > MAX_ENTRIES or not graft.entries:
        raise BadInput(f"{what} holds {len(graft.entries)} entries, which no graft does")
    places = {(row.library, row.container, row.arch) for row in graft.entries}
    names = {row.member for row in graft.entries}
    if len(places) != len(graft.entries) or len(names) != len(graft.entries):
        raise BadInput(f"{what} holds two entries for one place")
    if strange := (archive.members.keys() ^ names) - {MANIFEST}:
        raise BadInput(f"{what}: {min(strange)[:200]!r} is in its list or in the file, but not in both")
    return graft, {row.member: _read_entry(archive, row, what) for row in graft.entries}


def _read_entry(archive: WheelZip, row: NewEntry, what: str) -> bytes:
    size = archive.members[row.member].size
    if not _MEMBER.fullmatch(row.member) or row.container < 0 or size != row.bytes or size > fatbin.MAX_IMAGE:
        raise BadInput(f"{what}: its entry {row.member[:200]!r} is not as it must be")
    content = archive.read(row.member, fatbin.MAX_IMAGE)
    if hashlib.sha256(content).hexdigest() != row.sha256:
        raise BadInput(f"{what}: {row.member} has another digest than its list says", remedy="get the file again")
    try:
        arch = parse_gpu_arch(row.arch)
        if not isinstance(arch, Sm):
            check_object(content, arch)
            return content
        _check_entry(fatbin.container_head(len(content)) + content, arch, row.member)
    except ValueError as error:
        raise BadInput(f"{what}: {error}") from error
    except Malformed as error:
        raise BadInput(f"{what}: {row.member}: {error.message}") from error
    return content
