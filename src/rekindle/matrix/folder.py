"""The directory of a matrix: all truth about a cell lies in its own folder, written whole or not at all.

::

    ROOT/cells/ID/cell.json    what to build, frozen
                  state.json   what became of it
                  owner.json   who works on it now
                  wheels/      the wheel with its statements, reports and proof
    ROOT/trees/KEY/            a workspace that cells of one compiled tree share

Who works on a cell holds the operating system's lock, which dies with its process.
"""

import contextlib
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.host.files import hold_lock, write_atomically, write_if_changed
from rekindle.model.document import Document, encode, load, load_kept
from rekindle.model.matrix import Cell, CellState

_ID = re.compile(r"[0-9a-f]{16}")


class CellFolder:
    """One cell's directory. A missing or unreadable state is the state of a cell nobody has touched.

    While it runs, a cell looks for ``cancel_file`` and stops where it is there.
    """

    def __init__(self, root: Path, id: str) -> None:
        if not _ID.fullmatch(id):
            raise BadInput(f"{id!r} is no cell id", remedy="'rekindle matrix status' lists them")
        self.root, self.id = root, id
        self.place = root / "cells" / id
        self.state_file = self.place / "state.json"
        self.owner_file = self.place / "owner.json"
        self.cancel_file = self.place / "cancel"
        self.wheels = self.place / "wheels"
        self.log = self.place / "cell.log"
        self.trace = self.place / "trace.json"

    def cell(self) -> Cell:
        """The frozen cell; one from elsewhere, whose id is not its folder's name, is refused."""
        cell = load(self.place / "cell.json", Cell)
        if cell.id != self.id:
            raise BadInput(
                f"{self.place} holds the cell {cell.id}: it was copied from elsewhere",
                remedy=f"remove {self.place} and run again",
            )
        return cell

    def freeze(self, cell: Cell) -> None:
        """Write ``cell.json`` unless it is there and the same."""
        write_if_changed(self.place / "cell.json", encode(cell))

    def state(self) -> CellState:
        """What became of it; of a missing or unreadable file: nothing yet."""
        state = load_kept(self.state_file, CellState)
        return state if state is not None and state.id == self.id else CellState(id=self.id)

    def save(self, state: CellState) -> None:
        write_atomically(self.state_file, encode(state))


def tree_place(root: Path, tree: str) -> Path:
    """The workspace that the cells of one compiled tree share."""
    return root / "trees" / tree


HEARTBEAT_SECONDS = 10.0
DEAD_AFTER_SECONDS = 60.0


class Owner(Document, frozen=True, kw_only=True):
    """A process somewhere."""

    host: str
    pid: int
    since: float


@contextlib.contextmanager
def hold_cell(folder: CellFolder, *, clock: Callable[[], float] = time.time) -> Iterator[Owner | None]:
    """Hold the cell; yields the dead owner whose work is taken over, or None. Raises WorkspaceBusy where it is held."""
    folder.place.mkdir(parents=True, exist_ok=True)

    def busy() -> str:
        owner = read_owner(folder)
        who = f"process {owner.pid} on {owner.host}" if owner else "another process"
        return f"the cell {folder.id} is being built by {who}"

    with hold_lock(folder.place / ".lock", busy):
        before = read_owner(folder)
        if _lives_elsewhere(folder, before, clock()):
            raise WorkspaceBusy(busy())
        myself = Owner(host=platform.node(), pid=os.getpid(), since=time.time())
        write_atomically(folder.owner_file, encode(myself))
        with _heartbeat(folder.owner_file):
            yield before
        # A cell that ended by an exception keeps its owner file: the next one knows that work was lost.
        folder.owner_file.unlink(missing_ok=True)


def read_owner(folder: CellFolder) -> Owner | None:
    """Who works on it, or did when it died."""
    return load_kept(folder.owner_file, Owner)


def is_held(folder: CellFolder, *, clock: Callable[[], float] = time.time) -> bool:
    """Does somebody who lives work on it?"""
    if not (folder.place / ".lock").exists():
        return False
    try:
        with hold_lock(folder.place / ".lock", str):
            return _lives_elsewhere(folder, read_owner(folder), clock())
    except WorkspaceBusy:
        return True


def _lives_elsewhere(folder: CellFolder, owner: Owner | None, now: float) -> bool:
    """On this machine the lock has answered: it was free, so the owner is dead. Elsewhere the heartbeat answers."""
    if owner is not None and owner.host != platform.node():
        with contextlib.suppress(OSError):
            return now - folder.owner_file.stat().st_mtime < DEAD_AFTER_SECONDS
    return False


@contextlib.contextmanager
def _heartbeat(file: Path) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            with contextlib.suppress(OSError):
                os.utime(file)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
