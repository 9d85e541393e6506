"""The directory of a matrix and what follows from it: shall a cell be built now, always with the reason, and how.

All truth about a cell lies in its own folder, written whole or not at all::

    ROOT/cells/ID/cell.json    what to build, frozen
                  state.json   what became of it
                  owner.json   who works on it now
                  wheels/      the wheel with its statements, reports and proof
    ROOT/trees/KEY/            a workspace that cells of one compiled tree share

Who works on a cell holds the operating system's lock, which dies with its process. Failures are remembered with their
class, and the class decides about another try (``failures.toml``): what was lost is tried again, what ran out of memory
is tried again with fewer jobs, what does not compile is left alone until something changes.
"""

import contextlib
import os
import platform
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.host.files import hold_lock, sha256_of, write_atomically, write_if_changed
from rekindle.matrix.engine import Ending, Task
from rekindle.model.document import Document, encode, load, load_kept
from rekindle.model.matrix import Attempt, Cell, CellState, Defaults, FailureClass
from rekindle.model.progress import run_meanwhile
from rekindle.model.toml import read_beside

_ID = re.compile(r"[0-9a-f]{16}")


class CellFolder:
    """One cell's directory; without a readable state nobody touched it. It stops where there is a ``cancel_file``."""

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
            text = f"{self.place} holds the cell {cell.id}: it was copied from elsewhere"
            raise BadInput(text, remedy=f"remove {self.place} and run again")
        return cell

    def freeze(self, cell: Cell) -> None:
        """Write ``cell.json`` unless it is there and the same."""
        write_if_changed(self.place / "cell.json", encode(cell))

    def state(self) -> CellState:
        """What became of it; of a missing or unreadable file: nothing yet."""
        state = load_kept(self.state_file, CellState)
        return state if state is not None and state.id == self.id else CellState(id=self.id)

    def save(self, state: CellState) -> None:
        """Write ``state.json``, whole or not at all."""
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
        write_atomically(folder.owner_file, encode(Owner(host=platform.node(), pid=os.getpid(), since=time.time())))

        def beat(done: threading.Event) -> None:
            while not done.wait(HEARTBEAT_SECONDS):
                with contextlib.suppress(OSError):
                    os.utime(folder.owner_file)

        with run_meanwhile(beat):
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


class FailureRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of ``failures.toml``, where its fields are explained."""

    words: str
    tries: int = 1
    again: bool = False
    diagnoses: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()


FAILURES = read_beside(__file__, "failures.toml", dict[FailureClass, FailureRule])


class Decision(NamedTuple):
    """``jobs_divisor`` is by how much the number of parallel jobs is to be cut."""

    build: bool
    because: str
    jobs_divisor: int = 1


def decide(cell: Cell, state: CellState, *, wheel_there: bool, fresh_run: bool, force: bool = False) -> Decision:
    """``fresh_run``: this is the first look of a new ``matrix run``, so worldly failures get another chance."""
    if force:
        return Decision(True, "asked for again")
    if state.stage == "cancelled":
        return Decision(fresh_run, "it was cancelled" + ("" if fresh_run else "; the next run builds it"))
    if state.stage in ("built", "proven"):
        if cell.target is None and not wheel_there:
            return Decision(True, "its wheel is gone or changed")
        return Decision(False, f"already {state.stage}")
    if not state.attempts:
        return Decision(True, "never built")
    if (failure := state.failure) is None:
        # Running, but nobody holds it: its owner died before it could write.
        return Decision(True, "its last worker died; it continues where that one stopped")
    rule = FAILURES[failure]
    kinds = [attempt.failure for attempt in state.attempts]
    tried = kinds.count(failure)
    # Half the jobs for each time the memory ran out.
    divisor = 1 << min(4, kinds.count("memory"))
    if tried < rule.tries:
        return Decision(True, f"{rule.words}; try {tried + 1} of {rule.tries}", divisor)
    if fresh_run and rule.again:
        return Decision(True, f"{rule.words} last time; tried again in a new run", divisor)
    return Decision(False, f"{rule.words}: {state.message or 'no message'} (change something, or --force)")


def classify(message: str, diagnoses: tuple[str, ...] = (), *, default: FailureClass = "compile") -> FailureClass:
    """The class of a failure, from what explain found and from the message itself."""
    by_diagnosis = {name: kind for kind, rule in FAILURES.items() for name in rule.diagnoses}
    by_phrase = (kind for kind, rule in FAILURES.items() for phrase in rule.phrases if phrase in message.lower())
    return next((by_diagnosis[name] for name in diagnoses if name in by_diagnosis), next(by_phrase, default))


def is_done(cell: Cell, state: CellState) -> bool:
    """Built, and the wheel still lies where the state says, with the bytes it had."""
    if state.stage in ("built", "proven"):
        with contextlib.suppress(OSError):
            return cell.target is not None or bool(state.wheel and sha256_of(Path(state.wheel)) == state.wheel_sha256)
    return False


@dataclass(kw_only=True)
class DirectoryLedger:
    """``cores`` is what one worker has, to cut jobs from where memory ran out. ``farm`` and ``farm_check`` are what
    each build is told of a farm; with ``traces`` each leaves a time line in its folder."""

    root: Path
    defaults: Defaults
    cores: int
    force: frozenset[str] = frozenset()
    farm: str | None = None
    farm_check: int | None = None
    traces: bool = False

    def folder(self, cell: Cell) -> CellFolder:
        """Where all that is known of the cell lies."""
        return CellFolder(self.root, cell.id)

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        """With the wheel looked at: one that is gone or changed is built again."""
        state = self.folder(cell).state()
        force = fresh_run and cell.id in self.force
        return decide(cell, state, wheel_there=is_done(cell, state), fresh_run=fresh_run, force=force)

    def done(self, cell: Cell) -> bool:
        return self.folder(cell).state().stage in ("built", "proven")

    def held(self, cell: Cell) -> bool:
        """Does anybody who lives work on it, here or elsewhere?"""
        return is_held(self.folder(cell))

    def ended(self, cell: Cell, ending: Ending) -> None:
        """Save how it ended, since the cell could not do so itself."""
        folder = self.folder(cell)
        state = folder.state()
        if state.stage in ("built", "proven", "failed") or is_held(folder):
            return
        if ending.why == "cancelled":
            folder.save(msgspec.structs.replace(state, stage="cancelled"))
        elif ending.why == "hang":
            folder.save(fail_attempt(state, "hang", "nothing happened for too long"))
        else:
            folder.save(fail_attempt(state, "lost", "its process ended before it could say why"))

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        """The command that builds it, with what this matrix says of jobs, memory and caches."""
        folder = self.folder(cell)
        folder.freeze(cell)
        folder.cancel_file.unlink(missing_ok=True)
        jobs, divisor = self.defaults.jobs, decision.jobs_divisor
        jobs = jobs if divisor == 1 else max(1, (jobs or self.cores) // divisor)
        settings = {"--jobs": jobs, "--memory": self.defaults.memory, "--launcher": self.defaults.launcher}
        options = [word for name, value in settings.items() if value for word in (name, str(value))]
        options += [] if self.farm is None else [f"--farm={self.farm}" if self.farm else "--farm"]
        options += [] if self.farm_check is None else [f"--farm-check={self.farm_check}"]
        options += [f"--trace={folder.trace}"] if self.traces else []
        options += ["--force"] if cell.id in self.force else []
        # Whoever runs the matrix admitted its cells; a worker on another machine cannot know that.
        call = ("-m", "rekindle", "matrix", "cell", cell.id, "--root", str(self.root), "--trust")
        env = {"CCACHE_DIR": self.defaults.cache, "SCCACHE_DIR": self.defaults.cache} if self.defaults.cache else {}
        hang_seconds, argv = self.defaults.hang_minutes * 60, (sys.executable, *call, *options)
        return Task(cell=cell.id, argv=argv, worker=worker, env=env, log=str(folder.log), hang_seconds=hang_seconds)


def begin_attempt(state: CellState, *, jobs: int | None) -> CellState:
    """The state with a new attempt. One that never ended is closed as lost first: we hold the cell, so it is gone."""
    attempts = state.attempts
    if attempts and attempts[-1].ended is None:
        attempts = (*attempts[:-1], _close_attempt(attempts[-1], "lost", "its process died"))
    attempt = Attempt(number=len(attempts) + 1, started=time.time(), host=platform.node(), jobs=jobs)
    return msgspec.structs.replace(state, stage="running", attempts=(*attempts, attempt), phase="")


def fail_attempt(state: CellState, kind: FailureClass, message: str, **more: str) -> CellState:
    """The state with its last attempt ended as a failure."""
    attempts = state.attempts or (Attempt(number=1, started=time.time(), host=platform.node()),)
    closed = _close_attempt(attempts[-1], kind, message)
    return msgspec.structs.replace(state, stage="failed", attempts=(*attempts[:-1], closed), **more)


def end_attempt(state: CellState) -> CellState:
    """The state with its last attempt ended well."""
    last = msgspec.structs.replace(state.attempts[-1], ended=time.time())
    return msgspec.structs.replace(state, attempts=(*state.attempts[:-1], last))


def _close_attempt(attempt: Attempt, kind: FailureClass, message: str) -> Attempt:
    if attempt.ended is not None and attempt.failure is not None:
        return attempt
    return msgspec.structs.replace(attempt, ended=time.time(), failure=kind, message=message[:500])
