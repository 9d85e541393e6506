"""A whole environment as it was before it was changed, to be put back byte for byte, whenever a kill comes.

Files are linked, not copied (see ``packages``); the copy lies beside the environment, on the same disk, with a record
of what was changed around it.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec

from rekindle.errors import NotReady
from rekindle.host.files import rename_patiently, write_atomically
from rekindle.interpreters.packages import link_tree
from rekindle.model.document import encode, load_kept


class EnvironmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was changed in and around an environment: ``files`` outside it with their old bytes (base64; None where
    there was none), folders ``made`` for them, ``moved`` folders (from, to). ``phase`` tells what a kill cut short."""

    phase: Literal["changing", "changed", "restoring"]
    files: dict[str, str | None] = {}
    made: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    notes: dict[str, str] = {}


class KeptEnvironment:
    """A whole environment as it was before it was changed, beside it on the same disk, until it is put back.

    It outlives the process: after a kill at any moment ``recover`` finds the environment as it was or as it became.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root.parent / f".rekindle-{root.name}"
        self._before = self.folder / "before"
        self._record = self.folder / "record.json"

    @property
    def record(self) -> EnvironmentRecord | None:
        """What was changed; None where nothing was, or a copy was not finished."""
        return load_kept(self._record, EnvironmentRecord) if self._before.is_dir() else None

    def recover(self) -> bool:
        """Put an environment back whose change was cut short; did that need doing?"""
        record = self.record
        if record is not None and record.phase == "changed":
            return False
        begun = record is not None
        if begun:
            self.restore()
        elif self.folder.is_dir():
            shutil.rmtree(self.folder, ignore_errors=True)
        return begun

    def keep(self) -> None:
        """Take the copy; the environment is not touched."""
        try:
            self.folder.mkdir(exist_ok=True)
            if self.folder.stat().st_dev != self.root.stat().st_dev:
                raise OSError("it is a disk of its own")
            part = self.folder / "part"
            shutil.rmtree(part, ignore_errors=True)
            link_tree(self.root, part)
            # Before the copy has its name nothing was changed; with the record in place everything can be undone.
            self.write(EnvironmentRecord(phase="changing"))
            rename_patiently(part, self._before)
        except OSError as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise NotReady(
                f"{self.root} cannot be kept as it is: {error.strerror or error}",
                remedy=f"allow writing to {self.root.parent}, and leave room there where it cannot link files",
            ) from error

    def write(self, record: EnvironmentRecord) -> None:
        """Note what is about to be changed."""
        write_atomically(self._record, encode(record))

    def change_files(self, texts: Mapping[Path, str | bytes], record: EnvironmentRecord) -> EnvironmentRecord:
        """Write files; what those outside the environment held is noted first."""
        olds = dict(record.files)
        for path in texts:
            if not path.is_relative_to(self.root) and str(path) not in olds:
                olds[str(path)] = base64.b64encode(path.read_bytes()).decode() if path.is_file() else None
        made = [str(folder) for path in texts for folder in path.parents if not folder.exists()]
        noted = msgspec.structs.replace(record, files=olds, made=tuple(dict.fromkeys((*record.made, *made))))
        self.write(noted)
        for path, text in texts.items():
            mode = path.stat().st_mode if path.is_file() else None
            write_atomically(path, text)
            if mode is not None:
                path.chmod(mode)
        return noted

    def put_files_back(self, record: EnvironmentRecord) -> None:
        """What lies outside the environment as it was before, and no folder moved."""
        for name, old in record.files.items():
            _put_back(Path(name), old)
        for name in record.made:
            with contextlib.suppress(OSError):
                Path(name).rmdir()  # what somebody else put there stays
        for source, goal in record.moved:
            if Path(goal).is_dir() and not Path(source).exists():
                rename_patiently(Path(goal), Path(source))

    def restore(self) -> None:
        """Everything as it was before; continues where a kill ended it."""
        record = self.record
        if record is None:
            return
        self.write(msgspec.structs.replace(record, phase="restoring"))
        self.put_files_back(record)
        changed = self.folder / "changed"
        if self.root.exists():
            shutil.rmtree(changed, ignore_errors=True)
            rename_patiently(self.root, changed)
        rename_patiently(self._before, self.root)
        shutil.rmtree(self.folder, ignore_errors=True)


def _put_back(path: Path, old: str | None) -> None:
    if old is None:
        path.unlink(missing_ok=True)
    elif not path.is_file() or path.read_bytes() != base64.b64decode(old):
        mode = path.stat().st_mode if path.is_file() else None
        write_atomically(path, base64.b64decode(old))
        if mode is not None:
            path.chmod(mode)
