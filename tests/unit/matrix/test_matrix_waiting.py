"""How long a run waits for a worker, and what it says when it gives up: by a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from matrix_mini import cell

from rekindle.errors import StageFailed
from rekindle.matrix.engine import Ending, Engine, Task
from rekindle.matrix.ledger import Decision
from rekindle.matrix.run import Ledger, Loop, Tally
from rekindle.model.matrix import BUSY_CODE, Cell, Worker

HERE = Worker(name="here", system="linux-x86_64")
NO_USE = 2  # the code of a cell that is not worth another try


class Yard(Ledger, Engine):
    """Workers as ``there`` says at each moment; each cell takes ``takes`` seconds and ends with the next of its codes
    (none left: built)."""

    def __init__(self, there: Callable[[float], Sequence[Worker]], *, takes: float = 1.0) -> None:
        self.now = 0.0
        self.there, self.takes = there, takes
        self.longer: dict[str, float] = {}  # cell: what it takes where that is more
        self.codes: dict[str, list[tuple[int, str]]] = {}
        self.built: set[str] = set()
        self.given_up: set[str] = set()
        self.started: list[tuple[float, str, str]] = []
        self.told: list[tuple[str, int, str]] = []
        self.holders: dict[str, float] = {}  # cell: somebody else builds it until then
        self.running: list[tuple[float, str]] = []
        self.closed = False

    def decide(self, cell: Cell, *, fresh_run: bool) -> Decision:
        build = cell.id not in self.built | self.given_up
        return Decision(build, "wanted" if build else "enough")

    def done(self, cell: Cell) -> bool:
        return cell.id in self.built

    def held(self, cell: Cell) -> bool:
        until = self.holders.get(cell.id)
        if until is not None and self.now >= until:
            self.built.add(cell.id)
        return until is not None and self.now < until

    def ended(self, cell: Cell, ending: Ending) -> None:
        self.told.append((cell.name, ending.code, ending.why))

    def task(self, cell: Cell, worker: str, decision: Decision) -> Task:
        return Task(cell=cell.id, argv=(), worker=worker)

    def workers(self) -> Sequence[Worker]:
        return self.there(self.now)

    def submit(self, task: Task) -> None:
        self.started.append((self.now, task.cell, task.worker))
        self.running.append((self.now + self.longer.get(task.cell, self.takes), task.cell))

    def wait(self, seconds: float) -> list[Ending]:
        self.now = min([self.now + seconds, *(moment for moment, _ in self.running)])
        ended = [name for moment, name in self.running if moment <= self.now]
        self.running = [(moment, name) for moment, name in self.running if name not in ended]
        endings = []
        for name in ended:
            code, why = self.codes[name].pop(0) if self.codes.get(name) else (0, "")
            if not code:
                self.built.add(name)
            elif code == NO_USE:
                self.given_up.add(name)
            endings.append(Ending(cell=name, code=code, seconds=self.takes, why=why))
        return endings

    def close(self) -> None:
        self.closed = True


def run(cells: Sequence[Cell], yard: Yard, *, patience: float = 10.0) -> tuple[Tally, list[str]]:
    said: list[str] = []
    tally = Loop(cells, yard, yard, lambda: yard.now, wait_seconds=patience, say=said.append).run()
    assert yard.closed
    return tally, said


@pytest.mark.parametrize(("comes", "built"), [(0.0, True), (9.0, True), (11.0, False)])
def test_a_worker_is_waited_for_as_long_as_the_table_says(comes: float, built: bool) -> None:
    yard = Yard(lambda now: [HERE] if now >= comes else [])
    if built:
        tally, _ = run([cell(1)], yard)
        assert (yard.started, tally.started) == ([(comes, cell(1).id, "here")], 1)
    else:
        with pytest.raises(StageFailed, match=r"no worker can build 1 cells, for example cell-1: there is no worker"):
            run([cell(1)], yard)
        assert yard.now == 10.0, "neither given up too early nor waited for longer"


def test_the_wait_begins_anew_after_something_was_built() -> None:
    yard = Yard(lambda now: [HERE] if 8 <= now < 9 or now >= 17 else [])
    run([cell(1), cell(2)], yard)
    assert [(begun, name) for begun, name, _ in yard.started] == [(8.0, cell(1).id), (17.0, cell(2).id)]
    gone = Yard(lambda now: [HERE] if 8 <= now < 9 else [])
    with pytest.raises(StageFailed, match="for example cell-2"):
        run([cell(1), cell(2)], gone)
    assert gone.now == 19.0


def test_nobody_is_short_of_workers_while_something_runs_or_others_build() -> None:
    yard = Yard(lambda now: [HERE] if now < 1 else [], takes=50.0)
    run([cell(1)], yard)
    assert yard.now == 50.0 and yard.built == {cell(1).id}
    others = Yard(lambda _: [])
    others.holders[cell(1).id] = 50.0
    tally, said = run([cell(1)], others)
    assert (tally.adopted, tally.started, others.started, others.now) == (1, 0, [], 50.0)
    assert said[1:] == [
        "cell-1: already being built by another run; waiting for that one",
        "cell-1: done by another run",
    ]


def test_a_worker_that_is_there_and_cannot_is_named_when_the_wait_is_over() -> None:
    able, old = HERE, Worker(name="old", system="linux-x86_64", pythons=("3.9.1",))
    yard = Yard(lambda now: [old] if now < 5 else [old, able])
    run([cell(1)], yard)
    assert yard.started == [(5.0, cell(1).id, "here")]
    with pytest.raises(StageFailed, match=r"for example cell-1: old has no Python 3\.11") as gave_up:
        run([cell(1)], Yard(lambda _: [old]))
    assert gave_up.value.remedy == "start a worker that can, or build the rest with --only"
    with pytest.raises(StageFailed, match="no worker can build 2 cells, for example cell-1: no worker is free"):
        run([cell(1), cell(2)], Yard(lambda _: [Worker(name="full", system="linux-x86_64", slots=0)]))


def test_what_one_try_took_and_became_is_counted() -> None:
    yard = Yard(lambda _: [HERE], takes=3.0)
    yard.codes = {cell(1).id: [(1, "lost"), (1, "")], cell(2).id: [(-9, ""), (BUSY_CODE, "")]}
    yard.holders[cell(3).id] = 4.0
    tally, said = run([cell(1), cell(2), cell(3)], yard)
    assert yard.built == {cell(1).id, cell(2).id, cell(3).id}
    assert yard.told == [("cell-1", 1, "lost"), ("cell-2", -9, "")], "only what the cell could not write down itself"
    assert (tally.started, tally.retried, tally.adopted) == (len(yard.started), 4, 2)
    assert tally.busy_seconds == 3.0 * len(yard.started) == 18.0
    assert "cell-1: again: wanted" in said and said[-1].endswith("done")


def test_a_cell_that_is_left_is_said_to_be_left_and_not_tried_again() -> None:
    yard = Yard(lambda _: [HERE])
    yard.codes = {cell(1).id: [(NO_USE, "")]}
    tally, said = run([cell(1), cell(2, after=(cell(1).id,))], yard)
    assert (tally.started, tally.retried, yard.told) == (1, 0, [])
    assert yard.now == 1.0, "the run ends as soon as nothing can come of it"
    assert said[-2:] == ["cell-1: left: enough", "cell-2: not built, since what it needs was not built"]


def test_no_worker_has_more_cells_than_slots_and_none_is_left_empty() -> None:
    slots = {"a": 1, "b": 2}
    yard = Yard(lambda _: [Worker(name=name, system="linux-x86_64", slots=count) for name, count in slots.items()])
    run([cell(n, minutes=60 - n) for n in range(7)], yard)
    at = {moment: [worker for begun, _, worker in yard.started if begun == moment] for moment, _, _ in yard.started}
    assert {moment: sorted(names) for moment, names in at.items()} == {0.0: list("abb"), 1.0: list("abb"), 2.0: ["b"]}


def test_what_still_runs_keeps_its_slot_and_no_more() -> None:
    yard = Yard(lambda _: [Worker(name="a", system="linux-x86_64", slots=3)])
    yard.longer = {cell(0).id: 9.0}
    run([cell(n, minutes=60 - n) for n in range(7)], yard)
    assert [begun for begun, _, _ in yard.started] == [0.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0]


def test_a_tree_goes_back_to_the_worker_that_compiled_it() -> None:
    yard = Yard(lambda _: [Worker(name=name, system="linux-x86_64") for name in "ab"])
    times = {0: (60.0, 10.0), 1: (45.0, 50.0)}
    run([cell(2 * tree + n, tree=tree, minutes=times[tree][n]) for tree in (0, 1) for n in (0, 1)], yard)
    homes = [(int(name, 16) // 2, worker) for _, name, worker in yard.started]
    assert homes == [(0, "b"), (1, "a"), (1, "a"), (0, "b")], "though the second round begins with the other tree"


def test_what_was_compiled_in_an_earlier_run_is_quick_and_comes_last() -> None:
    yard = Yard(lambda _: [HERE])
    yard.built = {cell(1).id}
    run([cell(1, tree=9), cell(2, tree=9, minutes=100.0), cell(3, minutes=50.0)], yard)
    assert [name for _, name, _ in yard.started] == [cell(3).id, cell(2).id]
