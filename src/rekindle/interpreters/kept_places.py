"""Folders as they were before a change, to be put back byte for byte, whenever a kill comes: ``keep``, change, then
``restore`` or ``forget``.

Files are linked, not copied, so that an environment with torch costs no space and about a second: installers replace
files and never write into them. The copy lies beside the first place, with a record of what was changed elsewhere.
"""

import base64
import contextlib
import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rekindle.errors import NotReady
from rekindle.host.files import rename_patiently, write_atomically
from rekindle.model.document import encode, load_kept


class ChangeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed besides the places: ``files`` with their old bytes (base64; None where there was none), folders
    ``made`` for them, ``moved`` folders (from, to). ``phase`` tells what a kill cut short."""

    phase: Literal["changing", "changed", "restoring"]
    files: dict[str, str | None] = {}
    made: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    notes: dict[str, str] = {}


class KeptPlaces:
    """Folders (or files) as they were, until they are put back or forgotten: after a kill at any moment ``recover``
    finds them as they were or as they became. ``name`` tells several changes of the same places apart."""

    def __init__(self, places: Sequence[Path], name: str = "") -> None:
        self.places = tuple(places)
        self.folder = places[0].parent / f".rekindle-{places[0].name}{name}"
        self._before, self._record = self.folder / "before", self.folder / "record.json"

    @property
    def record(self) -> ChangeRecord | None:
        """What was changed; None where nothing was, or a copy was not finished."""
        return load_kept(self._record, ChangeRecord) if self._before.is_dir() else None

    def recover(self) -> bool:
        """Put back what a change that was cut short has touched; did that need doing?"""
        record = self.record
        if record is not None and record.phase == "changed":
            return False
        self.restore()
        self.forget()
        return record is not None

    def keep(self) -> None:
        """Take the copy, after what an earlier change left unfinished was put back; nothing else is touched."""
        self.recover()
        try:
            part = self.folder / "part"
            part.mkdir(parents=True)
            for number, place in enumerate(self.places):
                if place.stat().st_dev != self.folder.stat().st_dev:
                    raise OSError(f"{place} is a disk of its own")
                if place.is_dir():
                    shutil.copytree(place, part / str(number), symlinks=True, copy_function=_link)
                else:
                    _link(str(place), str(part / str(number)))
            # Before the copy has its name nothing was changed; with the record in place everything can be undone.
            self.write(ChangeRecord(phase="changing"))
            rename_patiently(part, self._before)
        except OSError as error:
            self.forget()
            text = f"{self.places[0]} cannot be kept as it is: {error.strerror or error}"
            remedy = f"allow writing to {self.places[0].parent}, and leave room there where it cannot link files"
            raise NotReady(text, remedy=remedy) from error

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Keep them, and put everything back where what follows does not come to its end."""
        self.keep()
        try:
            yield
        except BaseException:
            self.restore()
            raise

    def write(self, record: ChangeRecord) -> None:
        """Note what is about to be changed."""
        write_atomically(self._record, encode(record))

    def note_files(self, paths: Iterable[Path], moved: Sequence[tuple[str, str]] = ()) -> None:
        """Note what files outside the places hold, and which folders will be moved, before either is done."""
        record = self.record or ChangeRecord(phase="changing")
        olds, folders = dict(record.files), dict.fromkeys(record.made)
        for path in paths:
            if not any(map(path.is_relative_to, self.places)) and str(path) not in olds:
                olds[str(path)] = base64.b64encode(path.read_bytes()).decode() if path.is_file() else None
            folders |= dict.fromkeys(str(folder) for folder in path.parents if not folder.exists())
        every = tuple(dict.fromkeys((*record.moved, *moved)))
        self.write(msgspec.structs.replace(record, files=olds, made=tuple(folders), moved=every))

    def change_files(self, texts: Mapping[Path, str | bytes], moved: Sequence[tuple[str, str]] = ()) -> None:
        """Write files and move folders, noted first."""
        self.note_files(texts, moved)
        for path, text in texts.items():
            _write_in_mode(path, text)
        for source, goal in moved:
            rename_patiently(Path(source), Path(goal))

    def settle(self, notes: dict[str, str], later: "KeptPlaces") -> None:
        """The change is whole: it stays until ``restore``, with what a ``later`` one (then forgotten) did there."""
        own, other = (kept.record or ChangeRecord(phase="changed") for kept in (self, later))
        made = tuple(dict.fromkeys((*own.made, *other.made)))
        moved = tuple(dict.fromkeys((*own.moved, *other.moved)))
        files = {**other.files, **own.files}
        self.write(ChangeRecord(phase="changed", files=files, made=made, moved=moved, notes=notes))
        later.forget()

    def put_files_back(self) -> None:
        """What files outside the places held before."""
        record = self.record or ChangeRecord(phase="changing")
        for name, old in record.files.items():
            path, content = Path(name), base64.b64decode(old or "")
            if old is None:
                path.unlink(missing_ok=True)
            elif not path.is_file() or path.read_bytes() != content:
                _write_in_mode(path, content)
        for name in record.made:
            with contextlib.suppress(OSError):
                Path(name).rmdir()  # what somebody else put there stays

    def restore(self) -> None:
        """Everything as it was before; continues where a kill ended it."""
        if (record := self.record) is None:
            return
        self.write(msgspec.structs.replace(record, phase="restoring"))
        self.put_files_back()
        for source, goal in record.moved:
            if Path(goal).is_dir() and not Path(source).exists():
                rename_patiently(Path(goal), Path(source))
        changed = self.folder / "changed"
        for number, place in enumerate(self.places):
            before = self._before / str(number)
            if not before.exists():
                continue
            remove(changed)
            if place.exists():
                try:
                    rename_patiently(place, changed)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    remove(place)  # a folder of a container's image cannot be renamed; it goes in any case
            rename_patiently(before, place)
        self.forget()

    def forget(self) -> None:
        """The change stays, or was put back: throw the copy away. Without a record nothing of it counts any more."""
        self._record.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _link(source: str, target: str) -> None:
    """The same file once more, where the disk can do that; else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def remove(path: Path) -> None:
    """A file or a folder with all in it; what is not there is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _write_in_mode(path: Path, content: str | bytes) -> None:
    """Written anew, with the mode of what was there."""
    mode = path.stat().st_mode if path.is_file() else None
    write_atomically(path, content)
    if mode is not None:
        path.chmod(mode)
