"""Headers that a graft needs: out of the wheel itself, and out of packages of the index without their libraries.

A package of cuBLAS weighs 400 MB, its headers 60 KB: only they are read (by ranges, where the server sends ranges).
The digest of the package's RECORD is pinned, and RECORD holds the digest of every header.
"""

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.formats.wheel import WheelZip
from rekindle.host.files import write_if_changed
from rekindle.model.graft import HeaderPackage
from rekindle.model.progress import Progress

WHEEL_INCLUDE = "torch/include/"
_DONE = "complete.txt"
_MOST_HEADER = 16 << 20


def take_headers(package: HeaderPackage, open_package: Callable[[], WheelZip], folder: Path) -> tuple[Path, ...]:
    """The folders ``within`` the package, with every header in them checked; taken once."""
    room = folder / f"{package.name}-{package.version}"
    if not (room / _DONE).is_file():
        shutil.rmtree(room, ignore_errors=True)
        wheel = open_package()
        raw = wheel.read(f"{wheel.dist_info}/RECORD")
        if hashlib.sha256(raw).hexdigest() != package.record:
            raise BadInput(
                f"{package.name} {package.version} on this index is not the package whose headers were pinned",
                remedy=f"another index, or a folder with its headers: --headers DIR (it has {package.header})",
            )
        record = wheel.record or {}
        for name in wheel.members:
            if any(name.startswith(f"{inner}/") for inner in package.within) and not name.endswith("/"):
                content = wheel.read(name, _MOST_HEADER)
                if name not in record or hashlib.sha256(content).digest() != record[name].digest:
                    raise BadInput(
                        f"{name} is not what the package's RECORD says", remedy="try again, or another index"
                    )
                (room / name).parent.mkdir(parents=True, exist_ok=True)
                (room / name).write_bytes(content)
        write_if_changed(room / _DONE, b"")
    return tuple(room / inner for inner in package.within)


def take_include(wheel: WheelZip, folder: Path, progress: Progress) -> Path:
    """The wheel's own include folder as files; taken once."""
    room = folder / "include"
    if not (room / _DONE).is_file():
        names = [name for name in wheel.members if name.startswith(WHEEL_INCLUDE) and not name.endswith("/")]
        if not names:
            raise BadInput(f"{wheel.what} has no {WHEEL_INCLUDE}, so its kernels cannot be compiled")
        progress.stage("headers", f"{len(names)} of the wheel itself")
        for count, name in enumerate(names):
            progress.step(count, len(names), name)
            target = room / name.removeprefix(WHEEL_INCLUDE)
            target.parent.mkdir(parents=True, exist_ok=True)
            # Thousands of them: not one by one to the disk; what says that all are there is written last.
            target.write_bytes(wheel.read(name, _MOST_HEADER))
        write_if_changed(room / _DONE, b"")
    return room


def has_header(folders: tuple[Path, ...], header: str) -> bool:
    return any((folder / header).is_file() for folder in folders)
