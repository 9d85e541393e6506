"""What the user named: a path, an installed package, or a requirement on the index; or many wheels at one place, in a
directory or an archive (zip, tar), which are read one after the other. Nothing is unpacked under a name of an archive's
choosing: each wheel is copied to one temporary file and read there."""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rekindle.errors import BadInput, reading
from rekindle.formats.view import CHUNK
from rekindle.host.live import LiveHost
from rekindle.inspect.reader import DirectorySource, Source, WheelSource, open_local
from rekindle.model.progress import Progress
from rekindle.model.wheel import WheelFinding

if TYPE_CHECKING:
    from rekindle.inspect.published import Places

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@contextlib.contextmanager
def open_target(
    target: str,
    *,
    progress: Progress,
    places: Callable[[], Places] | None = None,
    installed: Callable[[str, str | None], Path | None] | None = None,
    python: str | None = None,
    platform: str | None = None,
    tell: Callable[[WheelFinding], None] = lambda _: None,
) -> Iterator[Source]:
    """A path wins over a name, an installed package over the index unless a version or platform is named. ``places``
    (default: pip's) and ``installed(name, interpreter)``, the folder a package lies in (default: as the interpreter
    says), are asked only if needed. ``tell`` hears what the user ought to know of the choice."""
    if not target.strip():
        raise BadInput("name a wheel, a library or a package", remedy="rekindle inspect --help")
    path = Path(target)
    if path.exists():
        yield open_local(path)
        return
    if "/" in target or "\\" in target or target.lower().endswith((".whl", ".so", ".dll", ".pyd")):
        raise BadInput(
            f"there is no file {target}", remedy="give a wheel's or a library's path, or the name of a package"
        )
    interpreter = python if python and not python[:1].isdigit() else None
    is_plain = python is None and platform is None and _NAME.fullmatch(target) is not None
    if interpreter or is_plain:
        if (folder := (installed or installed_in)(target, interpreter)) is not None:
            yield open_installed(folder, target)
            return
        if interpreter:
            raise BadInput(f"{target} is not installed in {interpreter}", remedy=f"{interpreter} -m pip list")
    # What reads an index takes longer to load than a library takes to read.
    from rekindle.inspect.published import find_wheels, is_linked, open_wheel, pip_places

    where = (places or pip_places)()
    progress.stage("looking up", target)
    wheel = find_wheels(target, where, python=python, platform=platform)[0]
    progress.note(f"{wheel.file.name}")
    told: dict[str, str] = {}
    if is_plain:
        told["read-from-index"] = (
            f"{target} is not installed in the Python found here, so this is {wheel.file.name} from the index. For an "
            f"installed one: rekindle inspect {target} --python PATH/TO/python"
        )
    if where.indexes and is_linked(wheel, where):
        told["read-from-folder"] = (
            f"{wheel.file.name} comes from a folder of wheels that pip is set up for; no index has one that fits"
        )
    for code, text in told.items():
        progress.note(text)
        tell(WheelFinding(code=code, text=text, severity="note"))
    import tempfile

    with tempfile.TemporaryDirectory(prefix="rekindle-") as temporary:
        yield open_wheel(wheel, where, progress=progress, folder=Path(temporary))


def open_installed(folder: Path, name: str) -> Source:
    """An installed package: its directory, what wheels put beside it (NAME.libs), and its metadata."""
    mine = re.compile(rf"{re.escape(name.replace('-', '_').lower())}(?:\.libs|-[^-]+\.dist-info)?")
    folders = [path.name for path in sorted(folder.iterdir()) if path.is_dir() and mine.fullmatch(path.name.lower())]
    return DirectorySource(folder, label=f"{name} in {folder}", folders=folders)


def installed_in(name: str, interpreter: str | None) -> Path | None:
    """The folder a package is installed in, asked of interpreters without importing it: the one named, or else those
    a person here would mean (the active environment, this one, the first on PATH)."""
    from packaging.utils import canonicalize_name

    from rekindle.interpreters.packages import ask_contents

    host = LiveHost()
    for python in [interpreter] if interpreter else usual_pythons():
        with contextlib.suppress(BadInput):
            for package in ask_contents(host, python, isolated=False).packages:
                if canonicalize_name(package.name) == canonicalize_name(name) and Path(package.folder).is_dir():
                    return Path(package.folder)
    return None


def usual_pythons() -> list[str]:
    """Interpreters to ask where none was named, in order, each once."""
    # What asks interpreters takes longer to load than a library takes to read.
    from rekindle.interpreters.environment import python_of

    host = LiveHost()
    paths = [str(python_of(Path(root))) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := host.env.get(name))]
    paths += [sys.executable, *(path for name in ("python3", "python") if (path := host.which(name)))]
    # Two names in one folder are the same environment; two environments may link to the same program.
    return list({Path(path).parent: path for path in reversed(paths) if Path(path).exists()}.values())[::-1]


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
        if file.read(2) in (b"\x7fE", b"MZ"):
            return False
    import tarfile
    import zipfile

    try:
        return any(True for _ in _archived_wheels(path))
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError, RuntimeError, NotImplementedError):
        return False


def wheels_in(path: Path) -> Iterator[tuple[str, WheelSource | BadInput]]:
    """(name, source or why not) of each wheel, in the order of names for a directory, as stored for an archive."""
    if path.is_dir():
        for wheel in sorted(path.glob("*.whl"))[:MOST_WHEELS]:
            yield wheel.name, _open_wheel(wheel, wheel.name)
        return
    import tarfile
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory(prefix="rekindle-") as folder:
        place = Path(folder) / "wheel.whl"
        for name, opener in itertools.islice(_archived_wheels(path), MOST_WHEELS):
            label = name.replace("\\", "/").rpartition("/")[2]
            try:
                with opener() as stream, place.open("wb") as file:
                    _copy_wheel(stream, file, label)
            except BadInput as error:
                yield label, error
            except (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, ValueError, RuntimeError) as error:
                yield label, BadInput(f"{label} cannot be taken out of {path.name}: {error}")
            else:
                yield label, _open_wheel(place, label)


def _archived_wheels(path: Path) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    import tarfile
    import zipfile

    # A tar that is not compressed ends as the last wheel in it does, which looks like a zip: tar is asked first.
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as tar:
            for member in itertools.islice(tar, MOST_MEMBERS + 1):
                if member.isfile() and member.name.lower().endswith(".whl"):
                    yield member.name, functools.partial(tar.extractfile, member)  # type: ignore[misc]
        return
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.lower().endswith(".whl"):
                yield info.filename, functools.partial(archive.open, info)  # type: ignore[misc]


def _copy_wheel(stream: BinaryIO, file: BinaryIO, label: str) -> None:
    import tempfile

    done = 0
    room = shutil.disk_usage(tempfile.gettempdir()).free
    while piece := stream.read(CHUNK):
        done += len(piece)
        if done > min(MOST_BYTES, room // 2):
            raise BadInput(f"{label} is larger than what fits into {tempfile.gettempdir()}", remedy="set TMPDIR")
        file.write(piece)


def _open_wheel(path: Path, label: str) -> WheelSource | BadInput:
    try:
        with reading(label):
            return WheelSource(lambda: path.open("rb"), label, path.stat().st_size)
    except BadInput as error:
        return error
