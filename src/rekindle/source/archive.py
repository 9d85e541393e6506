"""Unpacks a source archive (tar, any compression, or zip) so that a tree is there whole or not at all.

Members may not leave the tree: no absolute names, no "..", no links to the outside, no devices. One common
top directory is taken off.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.model.progress import Progress, Silent
from rekindle.source.paths import check_relative

MAX_FILES = 500_000
MAX_BYTES = 20 << 30
_EXPANSION = 8  # torch 2.6.0: 27 MB of xz become 158 MB on disk


def unpack(archive: Path, target: Path, *, progress: Progress | None = None) -> None:
    """Unpack into ``target``, which must not exist (an empty directory is fine)."""
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
        _extract(archive, room, progress)
        inner = list(room.iterdir())
        top = inner[0] if len(inner) == 1 and inner[0].is_dir() and not inner[0].is_symlink() else room
        if target.exists():
            target.rmdir()
        top.rename(target)
        target.chmod(0o755)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(f"cannot unpack {archive.name}: {reason}; nothing was left behind") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _extract(archive: Path, room: Path, progress: Progress) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as file:
            infos = file.infolist()
            _bounded(len(infos), sum(info.file_size for info in infos), archive)
            for number, info in enumerate(infos, 1):
                check_member(info.filename, archive)
                file.extract(info, room)
                progress.step(number, len(infos), info.filename)
        return
    size = 0
    with archive.open("rb") as raw, tarfile.open(fileobj=raw) as file:
        for number, member in enumerate(file, 1):
            check_member(member.name, archive)
            size += member.size
            _bounded(number, size, archive)
            _check_kind(member, archive)
            file.extract(member, room, filter="data" if hasattr(tarfile, "data_filter") else None)
            progress.step(raw.tell(), archive.stat().st_size, f"{number} files")


def check_member(name: str, archive: Path) -> None:
    plain = name.removeprefix("./").rstrip("/")
    if plain:
        check_relative(plain, origin=archive.name, git=True)


def _check_kind(member: tarfile.TarInfo, archive: Path) -> None:
    if member.isdev() or member.isfifo():
        raise BadInput(f"{archive.name} holds a device ({member.name}); that is no source archive")
    if member.issym() or member.islnk():
        here = Path(member.name).parent if member.issym() else Path()
        depth = 0
        for part in (*here.parts, *Path(member.linkname).parts):
            depth += -1 if part == ".." else 0 if part == "." else 1
            if depth < 0 or part == "/":
                raise BadInput(f"{archive.name} holds a link out of its tree ({member.name}); nothing was unpacked")


def _bounded(files: int, size: int, archive: Path) -> None:
    if files > MAX_FILES or size > MAX_BYTES:
        raise BadInput(f"{archive.name} holds more than {MAX_FILES} files or {MAX_BYTES >> 30} GiB; stopped")
