"""The real loop and scheduler against a model of many workers, in virtual time. Times come from cells' estimates (or
from real build reports), with a spread; workers die at random and come back. What is measured: how close the end is to
the best possible, how much work failures cost, what the loop itself costs."""

import heapq
import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from rekindle.errors import BadInput
from rekindle.matrix.engine import Ending, Engine, Task
from rekindle.matrix.ledger import Decision
from rekindle.matrix.run import SHARED_SHARE, Ledger, Loop, chain_costs, unplaceable
from rekindle.model.matrix import Cell, Simulation, Worker

RESTART_SECONDS = 60.0
REDO_SECONDS = 120.0


class World(Ledger, Engine):
    """Cells and workers in virtual time: what the loop asks of its ledger and of its engine. ``failure_rate`` is the
    chance that a worker dies during a task, ``broken`` that a cell never compiles. What a dead worker had compiled
    stays in the tree (``kept``); only the objects in flight (``REDO_SECONDS``) are lost."""

    def __init__(self, cells: Sequence[Cell], count: int, *, failure_rate: float, broken: float, seed: int) -> None:
        self.now_seconds = 0.0
        self.built: set[str] = set()
        self.lost_seconds = 0.0
        self.failures = 0
        self._hopeless: set[str] = set()
        self._warm: set[str] = set()
        self._kept: dict[str, float] = {}
        self._away: dict[str, float] = {}
        self._events: list[tuple[float, int, Ending, str]] = []
        self._cells = {cell.id: cell for cell in cells}
        self._random = random.Random(seed)  # noqa: S311 (a model, not a secret)
        self._failure_rate = failure_rate
        self._workers = model_workers(cells, count)
        self._order = itertools.count()
        # Estimates are off by about a fifth.
        self._truth = {cell.id: cell.minutes * 60 * self._random.lognormvariate(0.0, 0.2) for cell in cells}
        self._broken = {cell.id for cell in cells if self._random.random() < broken}

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        if cell.id in self.built or cell.id in self._hopeless:
            return Decision(False, "already built" if cell.id in self.built else "it does not compile")
        return Decision(True, "never built" if fresh_run else "its worker was lost")

    def done(self, cell: Cell) -> bool:
        return cell.id in self.built

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        return Task(cell=cell.id, argv=(), worker=worker)

    def workers(self) -> Sequence[Worker]:
        """Those that are not restarting."""
        return [worker for worker in self._workers if self._away.get(worker.name, 0.0) <= self.now_seconds]

    def submit(self, task: Task) -> None:
        """Its ending is known at once and comes when its time has come."""
        cell = self._cells[task.cell]
        whole = self._truth[cell.id] * (SHARED_SHARE if cell.tree in self._warm else 1.0)
        needs = max(5.0, whole - self._kept.get(cell.id, 0.0))
        dies = self._random.random() < self._failure_rate
        seconds = needs * self._random.random() if dies or cell.id in self._broken else needs
        ending = Ending(cell=cell.id, code=int(dies), seconds=seconds, why="lost" if dies else "")
        heapq.heappush(self._events, (self.now_seconds + seconds, next(self._order), ending, task.worker))

    def wait(self, seconds: float) -> list[Ending]:
        """The next ending; time jumps to it."""
        if not self._events:
            self.now_seconds += seconds
            return []
        moment, _, ending, worker = heapq.heappop(self._events)
        self.now_seconds = max(self.now_seconds, moment)
        cell = self._cells[ending.cell]
        if ending.why == "lost":
            lost = min(REDO_SECONDS, ending.seconds)
            self.failures += 1
            self.lost_seconds += lost
            self._kept[cell.id] = self._kept.get(cell.id, 0.0) + ending.seconds - lost
            self._away[worker] = self.now_seconds + RESTART_SECONDS
        elif cell.id in self._broken:
            self._hopeless.add(cell.id)
        else:
            self.built.add(cell.id)
            self._warm.add(cell.tree)
        return [ending]

    def lower_bound(self) -> float:
        """No schedule is shorter than all work of a system spread over its workers, or than the longest chain."""
        whole = [cell for cell in self._cells.values() if cell.id not in self._broken]
        longest = 0.0
        for system, count in Counter(worker.system for worker in self._workers).items():
            true = [replace(cell, minutes=self._truth[cell.id] / 60) for cell in whole if cell.system == system]
            chains = chain_costs(true, ())
            longest = max(longest, sum(chains.values()) / count, *chains.values())
        return 60.0 * longest


def model_workers(cells: Sequence[Cell], count: int) -> list[Worker]:
    """One for each system of the cells, the others where the most work waits for each; large enough for every cell."""
    work: dict[str, float] = {}
    for cell in cells:
        work[cell.system] = work.get(cell.system, 0.0) + cell.minutes
    memory, held = max([64.0, *(cell.memory_gib for cell in cells)]), Counter[str]()
    for _ in range(count if work else 0):
        held[max(work, key=lambda system: (not held[system], work[system] / (held[system] + 1)))] += 1
    systems = held.elements() if work else itertools.repeat("linux-x86_64", count)
    return [Worker(name=f"w{number:04}", system=system, memory_gib=memory) for number, system in enumerate(systems)]


def simulate(
    cells: Sequence[Cell], workers: int, *, failure_rate: float = 0.02, broken: float = 0.0, seed: int = 1
) -> Simulation:
    """One run in virtual time."""
    world = World(cells, workers, failure_rate=failure_rate, broken=broken, seed=seed)
    for why in unplaceable(cells, world.workers()).values():
        remedy = f"--workers {len({cell.system for cell in cells})} or more: each system of the table needs one"
        raise BadInput(f"{workers} model workers cannot build every cell: {why}", remedy=remedy)
    begun = time.process_time()
    bound = world.lower_bound()
    Loop(cells, world, world, lambda: world.now_seconds, wait_seconds=math.inf).run()
    return Simulation(
        cells=len(cells),
        workers=workers,
        makespan_hours=round(world.now_seconds / 3600, 3),
        lower_bound_hours=round(bound / 3600, 3),
        ratio=round(world.now_seconds / bound, 3) if bound else 1.0,
        failures=world.failures,
        lost_hours=round(world.lost_seconds / 3600, 3),
        scheduler_cpu_seconds=round(time.process_time() - begun, 3),
        built=len(world.built),
        unbuilt=len(cells) - len(world.built),
    )
