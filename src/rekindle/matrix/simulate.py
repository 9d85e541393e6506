"""The real loop and scheduler against a model of many workers, in virtual time.

Times come from cells' estimates (or from real build reports), with a spread; workers die at random and come back.
What is measured: how close the end is to the best possible, how much work failures cost, what the loop itself costs.
"""

from __future__ import annotations

import heapq
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from rekindle.matrix.decide import Decision
from rekindle.matrix.engine import Ending, Task
from rekindle.matrix.run import Loop
from rekindle.matrix.schedule import SHARED_SHARE, chain_costs
from rekindle.model.matrix import Cell, Simulation, Worker

RESTART_SECONDS = 60.0


@dataclass(kw_only=True)
class World:
    """Virtual time and the truth about every cell. ``compiled`` is what a killed cell left in its tree, in seconds."""

    now_seconds: float = 0.0
    built: set[str] = field(default_factory=set)
    tries: dict[str, int] = field(default_factory=dict)
    hopeless: set[str] = field(default_factory=set)
    warm: set[str] = field(default_factory=set)
    kept: dict[str, float] = field(default_factory=dict)
    lost_seconds: float = 0.0
    failures: int = 0


class SimulatedLedger:
    def __init__(self, world: World) -> None:
        self._world = world

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        if cell.id in self._world.built:
            return Decision(False, "already built")
        if cell.id in self._world.hopeless:
            return Decision(False, "it does not compile")
        return Decision(True, "never built" if fresh_run else "its worker was lost")

    def done(self, cell: Cell) -> bool:
        return cell.id in self._world.built

    def held(self, cell: Cell) -> bool:
        return False

    def ended(self, cell: Cell, ending: Ending) -> None: ...

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        return Task(cell=cell.id, attempt=self._world.tries.get(cell.id, 0) + 1, argv=(), worker=worker)


class SimulatedEngine:
    """``failure_rate`` is the chance that a worker dies during a task, ``broken`` that a cell never compiles.

    What a dead worker had compiled stays in the tree; only the objects in flight (``redo``) are lost.
    """

    name = "simulated"

    def __init__(
        self,
        world: World,
        cells: Sequence[Cell],
        count: int,
        *,
        failure_rate: float,
        broken: float,
        seed: int,
        redo_seconds: float = 120.0,
    ) -> None:
        self._world = world
        self._cells = {cell.id: cell for cell in cells}
        self._random = random.Random(seed)  # noqa: S311 (a model, not a secret)
        self._failure_rate = failure_rate
        self._redo = redo_seconds
        self._away: dict[str, float] = {}
        self._workers = [
            Worker(name=f"w{number:04}", system=cells[0].system if cells else "linux-x86_64", memory_gib=64.0)
            for number in range(count)
        ]
        self._events: list[tuple[float, int, Ending, str]] = []
        self._number = 0
        # Estimates are off by about a fifth.
        self._truth = {cell.id: cell.minutes * 60 * self._random.lognormvariate(0.0, 0.2) for cell in cells}
        self._broken = {cell.id for cell in cells if self._random.random() < broken}

    def workers(self) -> Sequence[Worker]:
        now = self._world.now_seconds
        return [worker for worker in self._workers if self._away.get(worker.name, 0.0) <= now]

    def work(self, cell: Cell) -> float:
        """Seconds of work in a cell, given what its tree already holds."""
        whole = self._truth[cell.id] * (SHARED_SHARE if cell.tree in self._world.warm else 1.0)
        return max(5.0, whole - self._world.kept.get(cell.id, 0.0))

    def submit(self, task: Task) -> None:
        cell = self._cells[task.cell]
        needs = self.work(cell)
        self._world.tries[cell.id] = task.attempt
        dies = self._random.random() < self._failure_rate
        seconds = needs * self._random.random() if dies else needs
        if not dies and cell.id in self._broken:
            seconds = needs * self._random.random()
        ending = Ending(cell=cell.id, code=137 if dies else 0, seconds=seconds, why="lost" if dies else "")
        self._number += 1
        heapq.heappush(self._events, (self._world.now_seconds + seconds, self._number, ending, task.worker))

    def wait(self, seconds: float) -> list[Ending]:
        if not self._events:
            self._world.now_seconds += seconds
            return []
        moment, _, ending, worker = heapq.heappop(self._events)
        self._world.now_seconds = max(self._world.now_seconds, moment)
        cell = self._cells[ending.cell]
        if ending.why == "lost":
            lost = min(self._redo, ending.seconds)
            self._world.failures += 1
            self._world.lost_seconds += lost
            self._world.kept[cell.id] = self._world.kept.get(cell.id, 0.0) + ending.seconds - lost
            self._away[worker] = self._world.now_seconds + RESTART_SECONDS
        elif cell.id in self._broken:
            self._world.hopeless.add(cell.id)
        else:
            self._world.built.add(cell.id)
            self._world.warm.add(cell.tree)
        return [ending]

    def cancel(self, cell: str) -> None: ...

    def close(self) -> None: ...

    def lower_bound(self, cells: Sequence[Cell], count: int) -> float:
        """No schedule is shorter than all work spread evenly, or than the longest chain."""
        whole = [cell for cell in cells if cell.id not in self._broken]
        true = [msgspec.structs.replace(cell, minutes=self._truth[cell.id] / 60) for cell in whole]
        chains = chain_costs(true, ())
        return 60.0 * max(sum(chains.values()) / count, max(chains.values(), default=0.0))


def simulate(
    cells: Sequence[Cell], workers: int, *, failure_rate: float = 0.02, broken: float = 0.0, seed: int = 1
) -> Simulation:
    """One run in virtual time."""
    world = World()
    engine = SimulatedEngine(world, cells, workers, failure_rate=failure_rate, broken=broken, seed=seed)
    begun = time.process_time()
    bound = engine.lower_bound(cells, workers)
    Loop(cells, SimulatedLedger(world), engine, lambda: world.now_seconds, wait_seconds=1e9).run()
    spent = time.process_time() - begun
    return Simulation(
        cells=len(cells),
        workers=workers,
        makespan_hours=round(world.now_seconds / 3600, 3),
        lower_bound_hours=round(bound / 3600, 3),
        ratio=round(world.now_seconds / bound, 3) if bound else 1.0,
        failures=world.failures,
        lost_hours=round(world.lost_seconds / 3600, 3),
        scheduler_cpu_seconds=round(spent, 3),
        built=len(world.built),
        unbuilt=len(cells) - len(world.built),
    )
