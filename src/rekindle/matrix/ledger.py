"""The real ledger: cells in their directories, tasks as ``rekindle matrix cell`` commands."""

from __future__ import annotations

import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.host.files import sha256_of
from rekindle.matrix.decide import Decision, decide
from rekindle.matrix.engine import Ending, Task
from rekindle.matrix.folder import CellFolder, is_held
from rekindle.model.matrix import Attempt, Cell, CellState, Defaults, FailureClass

CANCEL_FILE = "cancel"


def cancel_file(root: Path, cell: str) -> Path:
    """A cell that runs looks for this file and stops."""
    return CellFolder(root, cell).place / CANCEL_FILE


def wheel_is_good(state: CellState) -> bool:
    """The wheel lies where the state says, with the bytes it had."""
    if not state.wheel or not state.wheel_sha256:
        return False
    try:
        return sha256_of(Path(state.wheel)) == state.wheel_sha256
    except OSError:
        return False


def is_done(cell: Cell, state: CellState) -> bool:
    """Built, and the wheel is still what it was."""
    return state.stage in ("built", "proven") and (cell.target is not None or wheel_is_good(state))


@dataclass(kw_only=True)
class DirectoryLedger:
    """``cores`` is what one worker has, to cut jobs from where memory ran out."""

    root: Path
    defaults: Defaults
    cores: int
    force: frozenset[str] = frozenset()

    def folder(self, cell: Cell) -> CellFolder:
        """The cell's directory."""
        return CellFolder(self.root, cell.id)

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        """Shall it be built?"""
        state = self.folder(cell).state()
        force = fresh_run and cell.id in self.force
        return decide(cell, state, wheel_there=is_done(cell, state), fresh_run=fresh_run, force=force)

    def done(self, cell: Cell) -> bool:
        """Is its wheel there?"""
        return self.folder(cell).state().stage in ("built", "proven")

    def held(self, cell: Cell) -> bool:
        """Is somebody building it at this moment?"""
        return is_held(self.folder(cell))

    def ended(self, cell: Cell, ending: Ending) -> None:
        """Written for the cell by whoever noticed: it could not do so itself."""
        folder = self.folder(cell)
        state = folder.state()
        if state.stage in ("built", "proven", "failed") or is_held(folder):
            return
        if ending.why == "cancelled":
            folder.save(msgspec.structs.replace(state, stage="cancelled"))
            return
        kind: FailureClass = "hang" if ending.why == "hang" else "lost"
        words = "nothing happened for too long" if kind == "hang" else "its process ended before it could say why"
        folder.save(failed(state, kind, words))

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        """The command that builds it, with what this matrix says of jobs, memory and caches."""
        folder = self.folder(cell)
        folder.freeze(cell)
        cancel_file(self.root, cell.id).unlink(missing_ok=True)
        jobs = self.defaults.jobs
        if decision.jobs_divisor > 1:
            jobs = max(1, (jobs or self.cores) // decision.jobs_divisor)
        given = {"--jobs": jobs, "--memory": self.defaults.memory, "--launcher": self.defaults.launcher}
        options = [word for name, value in given.items() if value for word in (name, str(value))]
        if cell.id in self.force:
            options.append("--force")
        # Whoever runs the matrix admitted its cells; a worker on another machine cannot know that.
        call = ("-m", "rekindle", "matrix", "cell", cell.id, "--root", str(self.root), "--trust")
        env = {"CCACHE_DIR": self.defaults.cache, "SCCACHE_DIR": self.defaults.cache} if self.defaults.cache else {}
        return Task(
            cell=cell.id,
            attempt=len(folder.state().attempts) + 1,
            argv=(sys.executable, *call, *options),
            worker=worker,
            env=env,
            log=str(folder.log),
            hang_seconds=self.defaults.hang_minutes * 60,
            minutes=cell.minutes,
        )


def begun(state: CellState, *, jobs: int | None) -> CellState:
    """A new attempt. One that never ended is closed as lost first: its process is gone, or we could not be here."""
    attempts = state.attempts
    if attempts and attempts[-1].ended is None:
        attempts = (*attempts[:-1], _closed(attempts[-1], "lost", "its process died"))
    attempt = Attempt(number=len(attempts) + 1, started=time.time(), host=platform.node(), jobs=jobs)
    return msgspec.structs.replace(state, stage="running", attempts=(*attempts, attempt), phase="")


def failed(state: CellState, kind: FailureClass, message: str, **more: str) -> CellState:
    """The last attempt ended with no."""
    attempts = state.attempts or (Attempt(number=1, started=time.time(), host=platform.node()),)
    closed = _closed(attempts[-1], kind, message)
    return msgspec.structs.replace(state, stage="failed", attempts=(*attempts[:-1], closed), **more)


def succeeded(state: CellState) -> CellState:
    """The last attempt ended with yes."""
    last = msgspec.structs.replace(state.attempts[-1], ended=time.time())
    return msgspec.structs.replace(state, attempts=(*state.attempts[:-1], last))


def _closed(attempt: Attempt, kind: FailureClass, message: str) -> Attempt:
    if attempt.ended is not None and attempt.failure is not None:
        return attempt
    return msgspec.structs.replace(attempt, ended=time.time(), failure=kind, message=message[:500])
