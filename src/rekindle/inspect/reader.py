"""Where the bytes come from: a wheel (on disk or by ranges), a directory, one library. All read alike.
``Source.mapped`` gives a library's bytes as one buffer; a wheel's member is inflated to an unnamed temporary file once,
so memory stays bounded and a kill leaves nothing behind."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

from rekindle.errors import BadInput, reading, tell_os_errors
from rekindle.formats.view import map_file, map_open

MAX_FILES = 200_000


Kind = Literal["wheel", "library", "directory", "installed"]


class WheelSource:
    """``digests`` collects the SHA-256 of every member that was inflated, for the RECORD check."""

    kind: Kind = "wheel"

    def __init__(
        self, opener: Callable[[], BinaryIO], label: str, size: int, fetched: Callable[[], int] | None = None
    ) -> None:
        from rekindle.formats.wheel import WheelZip  # a library alone needs nothing of what reads archives

        self.label, self.size, self.fetched = label, size, fetched
        self.zip = WheelZip(opener, label)
        self.read, self.heads = self.zip.find, self.zip.heads
        self.files = {name: member.size for name, member in self.zip.members.items() if not name.endswith("/")}
        self.digests: dict[str, str] = {}

    def add_digests(self, names: Iterable[str]) -> None:
        """Inflates these members only to sum them."""
        self.digests.update(self.zip.digests(names))

    def deflated(self, name: str) -> tuple[Callable[[int, int], bytes], int, int] | None:
        """How to get a member's stored bytes, how many, and where they begin; None for one that is not deflated."""
        import zipfile

        member = self.zip.members[name]
        if member.method != zipfile.ZIP_DEFLATED:
            return None
        begins = self.zip.begins(name)
        return lambda at, size: self.zip.stored(name, begins, at, size), member.stored, begins

    @contextlib.contextmanager
    def mapped(self, name: str) -> Iterator[Any]:
        import tempfile

        doing = f"{self.label}: {name} cannot be unpacked to {tempfile.gettempdir()}"
        remedy = "set TMPDIR to a place with room for it"
        with tell_os_errors(doing, remedy=remedy), tempfile.TemporaryFile(prefix="rekindle-") as file:
            self.digests[name] = self.zip.inflate(name, file.write)
            file.flush()
            with map_open(file) as buffer:
                yield buffer


class DirectorySource:
    """A directory (an unpacked wheel), or some folders of it (an installed package). Links are not followed."""

    def __init__(self, root: Path, label: str | None = None, folders: Sequence[str] | None = None) -> None:
        self.root = root
        self.label = label or str(root)
        self.kind: Kind = "directory" if folders is None else "installed"
        self.files: dict[str, int] = {}
        places = [root] if folders is None else [root / folder for folder in folders]
        for path in sorted(path for place in places for path in place.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and not path.is_symlink():
                self.files[name] = path.stat().st_size
                if len(self.files) > MAX_FILES:
                    raise BadInput(f"{self.label} holds more than {MAX_FILES} files", remedy="name a smaller directory")
        self.size = sum(self.files.values())

    def read(self, name: str, limit: int) -> bytes | None:
        if name in self.files and self.files[name] <= limit:
            with contextlib.suppress(OSError):
                return (self.root / name).read_bytes()
        return None

    @contextlib.contextmanager
    def mapped(self, name: str) -> Iterator[Any]:
        with reading(self.root / name), map_file(self.root / name) as buffer:
            yield buffer

    def heads(self, names: Iterable[str], size: int) -> Iterator[tuple[str, bytes]]:
        for name in names:
            with contextlib.suppress(OSError), (self.root / name).open("rb") as file:
                yield name, file.read(size)


class FileSource(DirectorySource):
    def __init__(self, path: Path) -> None:
        self.root, self.label, self.kind = path.parent, str(path), "library"
        self.size = _file_size(path)
        self.files = {path.name: self.size}


# The files of a target, by name with their sizes.
Source = WheelSource | DirectorySource


def open_local(path: Path) -> Source:
    """A wheel, a directory or a library on disk, recognised by its bytes, not its name."""
    if path.is_dir():
        return DirectorySource(path)
    with reading(path), path.open("rb") as file:
        head = file.read(4)
    if head == b"\x7fELF" or head.startswith(b"MZ"):
        return FileSource(path)
    return WheelSource(lambda: path.open("rb"), path.name, _file_size(path))


def _file_size(path: Path) -> int:
    with reading(path):
        return path.stat().st_size
