"""The loop: look what is to be done, hand it out, take in what ended, decide about another try.

It knows cells through a :class:`Ledger` (the directory of the matrix, or a simulation's memory) and workers through an
engine, so the very same loop is simulated with two hundred workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from rekindle.errors import StageFailed
from rekindle.matrix.engine import Ending, Engine, Task
from rekindle.matrix.ledger import Decision
from rekindle.matrix.schedule import assign, unplaceable
from rekindle.model.matrix import BUSY_CODE, Cell

POLL_SECONDS = 1.0


class Ledger(Protocol):
    """What is known of cells, wherever it is kept."""

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        """Shall it be built?"""

    def done(self, cell: Cell) -> bool:
        """Is its wheel there?"""

    def held(self, cell: Cell) -> bool:
        """Is somebody building it at this moment?"""

    def ended(self, cell: Cell, ending: Ending) -> None:
        """A task ended in a way that the cell itself could not write down (lost, hung, cancelled)."""

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        """The command that builds it."""


@dataclass(kw_only=True)
class Tally:
    """What the loop did. ``busy_seconds`` is the time tasks took, as the engine saw it."""

    started: int = 0
    retried: int = 0
    adopted: int = 0
    busy_seconds: float = 0.0


class Loop:
    """One ``matrix run``. ``say`` gets a line per event; ``wait_seconds`` is how long to wait for able workers, by the
    ``clock`` of the machine or of a simulation."""

    def __init__(
        self,
        cells: Sequence[Cell],
        ledger: Ledger,
        engine: Engine,
        clock: Callable[[], float],
        *,
        wait_seconds: float = 600.0,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cells = {cell.id: cell for cell in cells}
        self._ledger = ledger
        self._engine = engine
        self._clock = clock
        self._wait_seconds = wait_seconds
        self._say = say
        self._waiting: dict[str, Decision] = {}
        self._running: dict[str, str] = {}
        self._elsewhere: set[str] = set()
        self._finished: set[str] = set()
        self._warm: dict[str, str] = {}
        self.tally = Tally()

    def run(self) -> Tally:
        """Until nothing is left that can be built."""
        for cell in self._cells.values():
            self._look(cell)
        stuck_since: float | None = None
        try:
            while self._waiting or self._running or self._elsewhere:
                started = self._start()
                if not started and not self._running and not self._elsewhere:
                    stuck_since = self._stuck(stuck_since)
                    if stuck_since is None:
                        break
                else:
                    stuck_since = None
                for ending in self._engine.wait(POLL_SECONDS):
                    self._take_in(ending)
                self._look_elsewhere()
        finally:
            self._engine.close()
        return self.tally

    def _look(self, cell: Cell) -> None:
        decision = self._ledger.decide(cell, fresh_run=True)
        self._say(f"{cell.name}: rebuild: {'yes' if decision.build else 'no'}, because {decision.because}")
        if not decision.build:
            if self._ledger.done(cell):
                self._finished.add(cell.id)
                self._warm.setdefault(cell.tree, "")
            return
        if self._ledger.held(cell):
            self._adopt(cell)
        else:
            self._waiting[cell.id] = decision

    def _adopt(self, cell: Cell) -> None:
        """Somebody else builds it: wait for that one instead of starting a second."""
        if cell.id not in self._elsewhere:
            self._say(f"{cell.name}: already being built by another run; waiting for that one")
            self.tally.adopted += 1
            self._elsewhere.add(cell.id)

    def _start(self) -> int:
        workers = {worker.name: worker for worker in self._engine.workers()}
        free = {name: worker.slots for name, worker in workers.items()}
        for name in self._running.values():
            if name in free:
                free[name] -= 1
        busy = {self._cells[cell].tree for cell in (*self._running, *self._elsewhere)}
        ready = [self._cells[cell] for cell in self._waiting]
        chosen = assign(ready, free, workers, busy_trees=busy, warm=self._warm, done=self._finished)
        for cell, worker in chosen:
            decision = self._waiting.pop(cell.id)
            self._running[cell.id] = worker
            self.tally.started += 1
            self._say(f"{cell.name}: started on {worker} ({decision.because})")
            self._engine.submit(self._ledger.task(cell, worker, decision))
        return len(chosen)

    def _stuck(self, since: float | None) -> float | None:
        """Nothing runs and nothing could start: wait a while for able workers, then say which cells want what."""
        ready = [self._cells[cell] for cell in self._waiting]
        blocked = [cell for cell in ready if not set(cell.after) <= self._finished]
        if len(blocked) == len(ready):
            for cell in blocked:
                self._say(f"{cell.name}: not built, since what it needs was not built")
                del self._waiting[cell.id]
            return None
        now = self._clock()
        since = now if since is None else since
        if now - since >= self._wait_seconds:
            cell_id, why = next(iter(unplaceable(ready, self._engine.workers()).items()), ("", "no worker is free"))
            name = self._cells[cell_id].name if cell_id else ready[0].name
            raise StageFailed(
                f"no worker can build {len(ready)} cells, for example {name}: {why}",
                remedy="start a worker that can, or build the rest with --only",
            )
        return since

    def _take_in(self, ending: Ending) -> None:
        cell = self._cells[ending.cell]
        worker = self._running.pop(cell.id, "")
        self.tally.busy_seconds += ending.seconds
        if ending.code == BUSY_CODE:
            self._adopt(cell)
            return
        if ending.why or ending.code < 0:
            self._ledger.ended(cell, ending)
        self._warm[cell.tree] = worker
        if self._ledger.done(cell):
            self._finished.add(cell.id)
            self._say(f"{cell.name}: done")
            return
        self._again(cell)

    def _again(self, cell: Cell) -> None:
        decision = self._ledger.decide(cell, fresh_run=False)
        if decision.build:
            self.tally.retried += 1
            self._waiting[cell.id] = decision
        self._say(f"{cell.name}: {'again' if decision.build else 'left'}: {decision.because}")

    def _look_elsewhere(self) -> None:
        for cell_id in list(self._elsewhere):
            cell = self._cells[cell_id]
            if self._ledger.held(cell):
                continue
            self._elsewhere.discard(cell_id)
            if self._ledger.done(cell):
                self._finished.add(cell_id)
                self._say(f"{cell.name}: done by another run")
            else:
                self._again(cell)
