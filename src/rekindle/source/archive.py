"""Unpacks a source archive (tar, any compression, or zip) so that a tree is there whole or not at all.

Members may not leave the tree: no absolute names, no "..", no links to the outside, no devices. A ``.git`` in an
archive is left out, because git would run what its settings name. How many files, how large and how tightly
packed is bounded by what a tree of torch can be. One common top directory is taken off. On Windows, where making links
is a right few users have, a link becomes a copy of what it leads to.
"""

import bz2
import copy
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, cast

from rekindle.errors import BadInput
from rekindle.formats.zip_directory import check_count
from rekindle.host.files import is_git_name
from rekindle.model.progress import Progress, Silent
from rekindle.source.paths import check_relative

# Far more than torch with all its submodules is; a tree that passes these is none.
MAX_FILES = 300_000
MAX_BYTES = 8 << 30
MAX_RATIO = 60
RATIO_FROM = 256 << 20
# Longest name or header a tar may hold in one piece; members are read in far smaller ones.
MAX_READ = 16 << 20
_DAMAGED: tuple[type[Exception], ...] = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError)
_DAMAGED += (OSError, RuntimeError, OverflowError, ValueError)
_NO_LINKS = os.name == "nt"
_EXPANSION = 8  # torch 2.6.0: 27 MB of xz become 158 MB on disk


def unpack(archive: Path, target: Path, *, progress: Progress | None = None) -> int:
    """Unpack into ``target``, which must not exist or be empty; tells how many files of a ``.git`` were left out."""
    progress = progress or Silent()
    if target.exists() and any(target.iterdir()):
        raise BadInput(f"{target} exists and is not empty", remedy="give another place, or remove it")
    if not archive.is_file():
        raise BadInput(f"{archive} is not a file")
    target.parent.mkdir(parents=True, exist_ok=True)
    need = archive.stat().st_size * _EXPANSION
    if shutil.disk_usage(target.parent).free < need:
        raise BadInput(f"{target.parent} has too little free space: about {need >> 20} MiB are needed")
    room = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        left = _extract(archive, room, progress)
        inner = list(room.iterdir())
        top = room
        if len(inner) == 1 and inner[0].is_dir() and not inner[0].is_symlink():
            # Under a name that no archive can know, a link by the tree's own name leads out as well.
            top = inner[0].rename(room / room.name)
        _refuse_links_out(top, archive)
        if target.exists():
            target.rmdir()
        top.rename(target)
        target.chmod(0o755)
    except _DAMAGED as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"cannot unpack {archive.name}: {reason}; nothing was left behind") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return left


def _extract(archive: Path, room: Path, progress: Progress) -> int:
    packed = archive.stat().st_size
    size = left = 0
    if zipfile.is_zipfile(archive):
        with archive.open("rb") as raw:
            check_count(raw, archive.name, MAX_FILES)
            with zipfile.ZipFile(raw) as file:
                infos = file.infolist()
                _bounded(len(infos), sum(info.file_size for info in infos), packed, archive)
                wanted = [info for info in infos if not _is_left_out(info.filename, archive)]
                for number, info in enumerate(wanted, 1):
                    file.extract(info, room)
                    progress.step(number, len(wanted), info.filename)
        return len(infos) - len(wanted)
    links: dict[Path, Path] = {}
    with archive.open("rb") as raw, tarfile.open(fileobj=cast("IO[bytes]", _Plain(raw)), mode="r:") as tar:
        for number, member in enumerate(tar, 1):
            size += member.size
            _bounded(number, size, packed, archive)
            if _is_left_out(member.name, archive):
                left += 1
                continue
            if member.isdev() or member.issparse():
                kind = "device" if member.isdev() else "file with holes"
                raise BadInput(f"{archive.name} holds a {kind} ({member.name}); that is no source archive")
            if _NO_LINKS and (member.issym() or member.islnk()):
                here = room / member.name
                links[here] = (here.parent if member.issym() else room) / member.linkname
                continue
            _put(tar, member, room)
            progress.step(raw.tell(), packed, f"{number} files")
    _copy_links(links, room)
    return left


def _put(tar: tarfile.TarFile, member: tarfile.TarInfo, room: Path) -> None:
    """One member, as Python's own filter for data would put it. Pythons before 3.11.4 have none (Debian 12: 3.11.2)."""
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, room, filter="data")
        return
    base = room.resolve()
    goals = [(room / member.name).parent]
    if member.issym() or member.islnk():
        goals.append((goals[0] if member.issym() else room) / member.linkname)
    if not all(goal.resolve().is_relative_to(base) for goal in goals):
        # A link that was unpacked before leads out by a detour that its name does not show.
        raise BadInput(f"{member.name} would lie outside its tree; nothing was unpacked")
    plain = copy.copy(member)
    plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    plain.uname = plain.gname = ""
    if os.name != "nt":
        plain.uid, plain.gid = os.getuid(), os.getgid()
    tar.extract(plain, room)


def _copy_links(links: dict[Path, Path], room: Path) -> None:
    """What the links of an archive lead to, in their place; a link to a link waits for that one. One that leads nowhere
    is left out, as it would have led nowhere."""
    base = room.resolve()
    waiting = {here: Path(os.path.normpath(goal)) for here, goal in links.items()}
    size = 0
    # Files first, so that a folder is copied with what its own links lead to.
    for folders in (False, True):
        before = -1
        while waiting and before != len(waiting):
            before = len(waiting)
            for here, goal in list(waiting.items()):
                if not goal.exists() or goal.is_dir() != folders or not goal.resolve().is_relative_to(base):
                    continue
                if here.resolve().is_relative_to(goal.resolve()):
                    continue  # a folder cannot hold a copy of itself
                del waiting[here]
                size += sum(file.stat().st_size for file in (goal.rglob("*") if folders else (goal,)))
                if size > MAX_BYTES:
                    raise BadInput(f"what its links lead to is more than {MAX_BYTES >> 30} GiB; stopped")
                here.parent.mkdir(parents=True, exist_ok=True)
                if folders:
                    shutil.copytree(goal, here, dirs_exist_ok=True)
                else:
                    shutil.copyfile(goal, here)


class _Plain:
    """The plain bytes of a tar, whatever it is packed with; one read never gives more than a header can need."""

    def __init__(self, raw: IO[bytes]) -> None:
        magic = raw.read(6)
        raw.seek(0)
        opened: object = raw
        if magic.startswith(b"\x1f\x8b"):
            opened = gzip.GzipFile(fileobj=raw)
        elif magic.startswith(b"BZh"):
            opened = bz2.BZ2File(raw)
        elif magic.startswith((b"\xfd7zXZ\0", b"]\0\0\x80\0")):
            opened = lzma.LZMAFile(raw)  # noqa: SIM115 (closed with what it reads)
        self._file = cast("IO[bytes]", opened)

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > MAX_READ:
            raise tarfile.ReadError(f"one header wants {size} bytes")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go on from there; beyond the longest tree nothing is worth inflating."""
        if offset > 2 * MAX_BYTES:
            raise tarfile.ReadError(f"it claims {offset} bytes")
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def _is_left_out(name: str, archive: Path) -> bool:
    """Is it of a ``.git``? A name that would lie outside the tree is refused."""
    if any(is_git_name(part) for part in name.replace("\\", "/").split("/")):
        return True
    if plain := name.removeprefix("./").rstrip("/"):
        check_relative(plain, origin=archive.name, anywhere=os.name == "nt")
    return False


def _refuse_links_out(tree: Path, archive: Path) -> None:
    """A link may lead nowhere, but not to what lies beside the tree once that has its name."""
    base = tree.resolve()
    for folder, folders, files in os.walk(tree):
        for path in (Path(folder, name) for name in (*folders, *files)):
            if path.is_symlink() and not path.resolve().is_relative_to(base):
                raise BadInput(f"{archive.name} holds a link out of its tree ({path.name}); nothing was unpacked")


def _bounded(files: int, size: int, packed: int, archive: Path) -> None:
    if files > MAX_FILES or size > MAX_BYTES:
        raise BadInput(f"{archive.name} holds more than {MAX_FILES} files or {MAX_BYTES >> 30} GiB; stopped")
    if size > RATIO_FROM and size > MAX_RATIO * packed:
        raise BadInput(f"{archive.name} unpacks to over {MAX_RATIO} times its size; no source tree does; stopped")
