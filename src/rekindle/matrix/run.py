"""The loop: look what is to be done, hand it out, take in what ended, decide about another try. It knows cells through
a :class:`Ledger` and workers through an engine, so the same loop is simulated with two hundred workers. Cells of one
compiled tree form a chain (each after the first is cheap). The chain with the most work left goes first, since it
bounds the end; within it the order is the table's. A worker gets only what it can do."""

import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from rekindle.errors import StageFailed
from rekindle.matrix.engine import Ending, Engine, Task
from rekindle.matrix.ledger import Decision
from rekindle.model.matrix import BUSY_CODE, Cell, MatrixScript, Worker, slurm_text
from rekindle.model.version import same_prefix

# A second Python compiles only what depends on Python: about a sixth of spark, a quarter of torch (measured).
SHARED_SHARE = 0.25
POLL_SECONDS = 1.0


def chain_costs(cells: Sequence[Cell], warm: Collection[str]) -> dict[str, float]:
    """Minutes of work left per tree."""
    left: dict[str, float] = {}
    compiled = set(warm)
    for cell in cells:
        left[cell.tree] = left.get(cell.tree, 0.0) + cell.minutes * (SHARED_SHARE if cell.tree in compiled else 1.0)
        compiled.add(cell.tree)
    return left


def can_build(worker: Worker, cell: Cell) -> str | None:
    """None where the worker can; otherwise the first reason why it cannot."""
    if worker.system != cell.system:
        return f"{worker.name} is {worker.system}, the cell is for {cell.system}"
    if worker.memory_gib is not None and worker.memory_gib < cell.memory_gib:
        return f"{worker.name} has {worker.memory_gib:.1f} GiB, the cell wants {cell.memory_gib:.1f}"
    toolkit = ".".join((cell.cuda or "").split(".")[:2])
    if toolkit and worker.cuda is not None and not any(same_prefix(have, toolkit) for have in worker.cuda):
        return f"{worker.name} has no CUDA {cell.cuda}"
    if worker.pythons is not None and not any(f"{have}.".startswith(f"{cell.python}.") for have in worker.pythons):
        return f"{worker.name} has no Python {cell.python}"
    return None


def unplaceable(cells: Sequence[Cell], workers: Sequence[Worker]) -> dict[str, str]:
    """Cells that no worker can build, each with the reason of the nearest one. They would wait for ever."""
    reasons = {cell.id: [can_build(worker, cell) for worker in workers] for cell in cells}
    return {cell: whys[0] if whys and whys[0] else "there is no worker" for cell, whys in reasons.items() if all(whys)}


def assign(
    ready: Sequence[Cell],
    free: Mapping[str, int],
    workers: Mapping[str, Worker],
    *,
    busy_trees: Collection[str],
    warm: Mapping[str, str],
    done: Collection[str],
) -> list[tuple[Cell, str]]:
    """What to start now, and where: ``free`` slots per worker; ``warm``: where a tree was compiled last."""
    slots = {name: count for name, count in free.items() if count > 0}
    left, busy = chain_costs(ready, warm), set(busy_trees)
    chosen: list[tuple[Cell, str]] = []
    for cell in sorted(ready, key=lambda each: -left[each.tree]):
        if not slots:
            break
        if cell.tree in busy or not set(cell.after) <= set(done):
            continue
        able = [name for name in slots if can_build(workers[name], cell) is None]
        if able:
            # The worker that has the tree in its page cache, else the one with most free slots.
            name = warm.get(cell.tree, "")
            if name not in able:
                name = max(able, key=lambda each: (slots[each], each))
            chosen.append((cell, name))
            busy.add(cell.tree)
            slots[name] -= 1
            if not slots[name]:
                del slots[name]
    return chosen


def slurm_script(cells: Sequence[Cell], root: str, *, cores: int = 8) -> MatrixScript:
    """Cells of one tree stay together and in order; times are doubled estimates: Slurm kills what is late."""
    trees: dict[str, list[Cell]] = {}
    for cell in cells:
        trees.setdefault(cell.tree, []).append(cell)
    minutes = max(chain_costs(cells, ()).values(), default=60.0)
    listed = "\n".join(f'    "{" ".join(cell.id for cell in group)}"' for group in trees.values())
    text = slurm_text(
        __file__,
        {"ROOT": shlex.quote(root), "TREES": listed},
        job="rekindle",
        array=len(trees),
        cores=cores,
        memory_gib=math.ceil(max((cell.memory_gib for cell in cells), default=4.0) * 1.25) + 2,
        hours=max(1, math.ceil(2 * minutes / 60)),
        log="rekindle-%A_%a.log",
    )
    return MatrixScript(text=text, cells=len(cells))


class Ledger(Protocol):
    """What is known of cells, wherever it is kept."""

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        """Shall it be built?"""

    def done(self, cell: Cell) -> bool:
        """Is its wheel there?"""

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        """The command that builds it."""

    def held(self, cell: Cell) -> bool:
        """Is somebody building it at this moment?"""
        return False

    def ended(self, cell: Cell, ending: Ending) -> None:
        """A task ended in a way that the cell itself could not write down (lost, hung, cancelled)."""
        return


@dataclass(kw_only=True)
class Tally:
    """What the loop did. ``busy_seconds`` is the time tasks took, as the engine saw it."""

    started: int = 0
    retried: int = 0
    adopted: int = 0
    busy_seconds: float = 0.0


@dataclass
class Loop:
    """One ``matrix run``. ``say`` gets a line per event; ``wait_seconds``, by the ``clock``, for able workers."""

    cells: Sequence[Cell]
    ledger: Ledger
    engine: Engine
    clock: Callable[[], float]
    _: KW_ONLY
    wait_seconds: float
    say: Callable[[str], None] = lambda _: None
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._cells = {cell.id: cell for cell in self.cells}
        self._waiting: dict[str, Decision] = {}
        self._running: dict[str, str] = {}  # cell: worker
        self._elsewhere: set[str] = set()
        self._finished: set[str] = set()
        self._warm: dict[str, str] = {}  # tree: worker
        self._stuck_since: float | None = None

    def run(self) -> Tally:
        """Until nothing is left that can be built."""
        for cell in self._cells.values():
            decision = self.ledger.decide(cell, fresh_run=True)
            self.say(f"{cell.name}: rebuild: {'yes' if decision.build else 'no'}, because {decision.because}")
            if decision.build and self.ledger.held(cell):
                self._adopt(cell)
            elif decision.build:
                self._waiting[cell.id] = decision
            elif self.ledger.done(cell):
                self._finished.add(cell.id)
                self._warm.setdefault(cell.tree, "")
        try:
            while self._go_on():
                for ending in self.engine.wait(POLL_SECONDS):
                    self._take_in_ending(ending)
                for cell_id in [each for each in self._elsewhere if not self.ledger.held(self._cells[each])]:
                    self._elsewhere.discard(cell_id)
                    self._settle(self._cells[cell_id], "done by another run")
        finally:
            self.engine.close()
        return self.tally

    def _adopt(self, cell: Cell) -> None:
        """Somebody else builds it: wait for that one instead of starting a second."""
        if cell.id not in self._elsewhere:
            self.say(f"{cell.name}: already being built by another run; waiting for that one")
            self.tally.adopted += 1
            self._elsewhere.add(cell.id)

    def _go_on(self) -> bool:
        """Start what can start; is there anything to wait for?"""
        self._start_cells()
        if self._running or self._elsewhere:
            self._stuck_since = None
        elif self._waiting:
            self._wait_for_worker()
        return bool(self._waiting or self._running or self._elsewhere)

    def _start_cells(self) -> None:
        workers = {worker.name: worker for worker in self.engine.workers()}
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
            self.say(f"{cell.name}: started on {worker} ({decision.because})")
            self.engine.submit(self.ledger.task(cell, worker, decision))

    def _wait_for_worker(self) -> None:
        """Nothing runs or can start: wait a while for able workers, then say what lacks. What none could help goes."""
        ready = [self._cells[cell] for cell in self._waiting]
        blocked = [cell for cell in ready if not set(cell.after) <= self._finished]
        if len(blocked) == len(ready):
            for cell in blocked:
                self.say(f"{cell.name}: not built, since what it needs was not built")
                del self._waiting[cell.id]
            return
        now = self.clock()
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        if now - self._stuck_since >= self.wait_seconds:
            hopeless = unplaceable(ready, self.engine.workers())
            cell_id, why = next(iter(hopeless.items()), (ready[0].id, "no worker is free"))
            text = f"no worker can build {len(ready)} cells, for example {self._cells[cell_id].name}: {why}"
            raise StageFailed(text, remedy="start a worker that can, or build the rest with --only")

    def _take_in_ending(self, ending: Ending) -> None:
        cell = self._cells[ending.cell]
        worker = self._running.pop(cell.id, "")
        self.tally.busy_seconds += ending.seconds
        if ending.code == BUSY_CODE:
            self._adopt(cell)
        else:
            if ending.why or ending.code < 0:
                self.ledger.ended(cell, ending)
            self._warm[cell.tree] = worker
            self._settle(cell, "done")

    def _settle(self, cell: Cell, done: str) -> None:
        """It was built, in the words ``done``; else it waits for another try, or is left."""
        if self.ledger.done(cell):
            self._finished.add(cell.id)
            self.say(f"{cell.name}: {done}")
            return
        decision = self.ledger.decide(cell, fresh_run=False)
        if decision.build:
            self.tally.retried += 1
            self._waiting[cell.id] = decision
        self.say(f"{cell.name}: {'again' if decision.build else 'left'}: {decision.because}")
