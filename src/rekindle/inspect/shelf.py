"""Many wheels at one place: a directory of them, or an archive (zip, tar) that holds them. Read one after the other.

Nothing is unpacked under a name of the archive's choosing: each wheel is copied to one temporary file and read there.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from rekindle.errors import BadInput
from rekindle.inspect.reader import WheelSource

MOST_WHEELS = 5000
MOST_MEMBERS = 200_000
MOST_BYTES = 16 << 30


def holds_wheels(target: str | Path) -> bool:
    """Is this a directory or an archive (zip, tar) of wheels, rather than one wheel, library or package?

    >>> holds_wheels(wheel.parent), holds_wheels(wheel)
    (True, False)
    """
    path = Path(target)
    if path.is_dir():
        return any(path.glob("*.whl"))
    if not path.is_file() or path.suffix.lower() == ".whl":
        return False
    with contextlib.suppress(OSError), path.open("rb") as file:
        if file.read(4)[:2] in (b"\x7fE", b"MZ"):
            return False
    import tarfile
    import zipfile

    try:
        return any(True for _ in _stored(path))
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, RuntimeError, NotImplementedError):
        return False


def _is_wheel(name: str) -> bool:
    return name.lower().endswith(".whl")


def wheels_in(path: Path) -> Iterator[tuple[str, WheelSource | BadInput]]:
    """(name, source or why not) of each wheel, in the order of names for a directory, as stored for an archive."""
    if path.is_dir():
        for one in sorted(path.glob("*.whl"))[:MOST_WHEELS]:
            yield one.name, _open(one, one.name)
        return
    import tarfile
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory(prefix="rekindle-") as folder:
        place = Path(folder) / "wheel.whl"
        for name, opener in itertools.islice(_stored(path), MOST_WHEELS):
            label = name.replace("\\", "/").rsplit("/", 1)[-1]
            try:
                with opener() as stream, place.open("wb") as file:
                    _copy(stream, file, label)
            except BadInput as error:
                yield label, error
                continue
            except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, ValueError, RuntimeError) as error:
                yield label, BadInput(f"{label} cannot be taken out of {path.name}: {error}")
                continue
            yield label, _open(place, label)


def _stored(path: Path) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """The name of each wheel in an archive, and how to open it."""
    import tarfile
    import zipfile

    # A tar that is not compressed ends as the last wheel in it does, which looks like a zip: tar is asked first.
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            for member in itertools.islice(tar, MOST_MEMBERS + 1):
                if member.isfile() and _is_wheel(member.name):
                    yield member.name, functools.partial(tar.extractfile, member)  # type: ignore[misc]
        return
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if _is_wheel(info.filename):
                yield info.filename, functools.partial(archive.open, info)  # type: ignore[misc]


def _copy(stream: BinaryIO, file: BinaryIO, label: str) -> None:
    import shutil
    import tempfile

    done = 0
    room = shutil.disk_usage(tempfile.gettempdir()).free
    while piece := stream.read(1 << 20):
        done += len(piece)
        if done > min(MOST_BYTES, room // 2):
            raise BadInput(f"{label} is larger than what fits into {tempfile.gettempdir()}", remedy="set TMPDIR")
        file.write(piece)


def _open(path: Path, label: str) -> WheelSource | BadInput:
    try:
        return WheelSource(lambda: path.open("rb"), label, path.stat().st_size)
    except BadInput as error:
        return error
    except OSError as error:
        return BadInput(f"cannot read {label}: {error.strerror or error}")
