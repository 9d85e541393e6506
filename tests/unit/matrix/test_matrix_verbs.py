"""The verbs over a frozen matrix: what is known of every cell, which are chosen, cancelled, published, simulated."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle.api import machine_from_flags
from rekindle.build.governor import SHARED_JOBSERVER
from rekindle.errors import BadInput, Untrusted
from rekindle.journey import matrix as verbs
from rekindle.journey.matrix import (
    load_lock,
    lock_file,
    matrix_cancel,
    matrix_plan,
    matrix_publish,
    matrix_simulate,
    matrix_slurm,
    matrix_status,
    matrix_watch,
)
from rekindle.matrix.ledger import CellFolder, hold_cell
from rekindle.model.matrix import Attempt, CellState, MatrixLock, RunOptions, Worker
from tiny_wheels import make_wheel

HERE = machine_from_flags(os="linux", arch="x86_64", compiler="gcc-11", cuda="11.8", python="3.10", memory="64")
TEXT = '[axes]\ntorch = ["2.6.0"]\npython = ["3.10", "3.11"]\nvariant = ["cu118"]\narchs = ["6.1", "9.9"]\n'


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # what was made here is nobody else's
    file = tmp_path / "matrix.toml"
    file.write_text(TEXT, encoding="utf-8")
    matrix_plan(file, workspace=tmp_path / "work", machine=HERE)
    return file


def folders(table: Path) -> list[CellFolder]:
    lock = load_lock(table)
    return [CellFolder(Path(lock.root), cell.id) for cell in lock.cells]


def test_cells_that_nobody_touched_wait_and_refused_ones_are_counted(table: Path, tmp_path: Path) -> None:
    status = matrix_status(table)
    assert status.counts == {"waiting": 2, "refused": 2} and len(status.rows) == 2
    assert all(row.rebuild for row in status.rows)
    other = tmp_path / "other.toml"
    other.write_text(TEXT.replace(', "9.9"', ""), encoding="utf-8")
    matrix_plan(other, workspace=tmp_path / "two", machine=HERE)
    assert matrix_status(other).counts == {"waiting": 2}


def test_a_cell_that_says_it_runs_is_lost_unless_somebody_holds_it(table: Path) -> None:
    first = folders(table)[0]
    first.save(CellState(id=first.id, stage="running"))
    row = next(row for row in matrix_status(table).rows if row.cell == first.id)
    assert matrix_status(table).counts["lost"] == 1 and row.rebuild
    with hold_cell(first):
        row = next(row for row in matrix_status(table).rows if row.cell == first.id)
        assert (row.rebuild, row.because) == (False, "being built now")
        assert matrix_status(table).counts == {"running": 1, "waiting": 1, "refused": 2}
        watched = matrix_watch(table, every=0)
        assert [next(watched).counts["running"] for _ in range(3)] == [1, 1, 1]
    assert len(list(matrix_watch(table, every=0))) == 1, "nothing runs any more"


def test_only_cells_that_run_are_cancelled_and_only_the_chosen(table: Path) -> None:
    first, second = folders(table)
    with hold_cell(first), hold_cell(second):
        shown = matrix_cancel(table, only=[first.id[:8]])
        assert [row.cell for row in shown.rows] == [first.id]
    assert first.cancel_file.exists() and not second.cancel_file.exists()
    second.place.mkdir(parents=True, exist_ok=True)
    matrix_cancel(table)
    assert not second.cancel_file.exists(), "nobody holds it"


def test_cells_are_chosen_by_a_part_of_their_name(table: Path) -> None:
    lock = load_lock(table)
    assert [cell.name for cell in verbs._chosen(lock, [lock.cells[1].name])] == [lock.cells[1].name]
    assert verbs._chosen(lock, ["2.6.0", lock.cells[0].id]) == list(lock.cells), "each once, in the table's order"
    with pytest.raises(BadInput, match="no cell is called 'nonsense'"):
        verbs._chosen(lock, ["nonsense"])


def test_built_wheels_go_into_the_house_with_their_proofs(table: Path, tmp_path: Path) -> None:
    first, second = folders(table)
    wheel = make_wheel(first.wheels, "torch", "2.6.0")
    first.save(CellState(id=first.id, stage="built", wheel=str(wheel)))
    second.save(CellState(id=second.id, stage="failed", wheel=str(wheel)))
    done = matrix_publish(tmp_path / "house", table)
    names = {cell.id: cell.name for cell in load_lock(table).cells}
    assert done.added == done.unproven == (wheel.name,) and done.missing == (names[second.id],)
    assert done.same_name == () and (tmp_path / "house" / "simple" / "torch" / "index.html").is_file()
    second.save(CellState(id=second.id, stage="built", wheel=str(wheel)))
    assert matrix_publish(tmp_path / "house", table).same_name == (names[second.id],)


def test_a_house_is_not_begun_for_nothing(table: Path, tmp_path: Path) -> None:
    done = matrix_publish(tmp_path / "house", table)
    assert done.added == () and len(done.missing) == 2 and not (tmp_path / "house").exists()


def test_copies_of_a_table_are_cells_of_their_own(table: Path) -> None:
    assert matrix_simulate(table, workers=2).cells == 2
    assert matrix_simulate(table, workers=2, copies=3, failure_rate=0.0).cells == 6


def test_a_table_that_names_programs_is_its_makers(table: Path, tmp_path: Path) -> None:
    assert matrix_slurm(table).text.startswith("#!")
    assert all(folder.cell().id == folder.id for folder in folders(table)), "the nodes find them"
    strange = tmp_path / "strange.toml"
    strange.write_text(TEXT + '[defaults.settings]\nCMAKE_CXX_COMPILER = "/tmp/evil"\n', encoding="utf-8")
    matrix_plan(strange, workspace=tmp_path / "strange", machine=HERE)
    with pytest.raises(Untrusted):
        matrix_slurm(strange)
    with pytest.raises(Untrusted):
        verbs.matrix_run(strange, engine="none")
    assert matrix_slurm(strange, trust=True).text
    with pytest.raises(BadInput, match="there is no engine"):
        verbs.matrix_run(strange, engine="none", trust=True)


def test_the_lock_says_which_table_it_is_of(table: Path) -> None:
    assert isinstance(load_lock(table), MatrixLock)
    said = json.loads(lock_file(table).read_bytes())
    assert said["root"] == str(table.parent / "work")
    table.write_text(TEXT + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match="has changed since"):
        load_lock(table)


def test_a_run_takes_its_options_by_value_or_by_name(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[RunOptions] = []

    @contextlib.contextmanager
    def engine(lock: MatrixLock, options: RunOptions) -> Iterator[None]:
        asked.append(options)
        raise BadInput("no engine today")
        yield

    monkeypatch.setattr(verbs, "_engine", engine)
    chosen: list[tuple[RunOptions | None, dict[str, Any]]] = [(None, {"slots": 2}), (RunOptions(slots=3), {})]
    for options, choices in [*chosen, (RunOptions(slots=3), {"slots": 4})]:
        with pytest.raises(BadInput, match="no engine today"):
            verbs.matrix_run(table, options, **choices)
    assert [options.slots for options in asked] == [2, 3, 4]


@pytest.mark.parametrize(("engine", "why"), [("dask", "needs --scheduler"), ("magic", "there is no engine 'magic'")])
def test_an_engine_that_is_none_is_refused(engine: str, why: str, table: Path) -> None:
    with pytest.raises(BadInput, match=why):
        verbs.matrix_run(table, engine=engine)


@pytest.mark.parametrize(
    ("given", "defaults", "memory", "slots", "jobs"),
    [
        ({}, "", None, 4, 9),
        ({"memory": "2G", "slots": 3}, 'memory = "1G"\njobs = 5\n', 2 << 30, 3, 5),
        ({"farm": "here"}, 'memory = "1G"\n', 1 << 30, 1, 9),
    ],
)
def test_the_cells_of_this_machine_share_its_cores_and_the_memory_that_was_given(
    given: dict[str, Any], defaults: str, memory: int | None, slots: int, jobs: int,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    table = tmp_path / "matrix.toml"
    table.write_text(f"{TEXT}[defaults]\n{defaults}", encoding="utf-8")
    matrix_plan(table, workspace=tmp_path / "work", machine=HERE)
    asked: list[object] = []

    @contextlib.contextmanager
    def governed(history: Path, name: str, *told: object) -> Iterator[Any]:
        asked.extend(told)
        yield SimpleNamespace(env={"MAKEFLAGS": "-j"}, governor=SimpleNamespace(look="look"))

    monkeypatch.setattr("rekindle.build.governor.governed_jobs", governed)
    monkeypatch.setattr(verbs, "cores_here", lambda: 9)
    monkeypatch.setattr(verbs, "this_worker", lambda: Worker(name="here", system="linux-x86_64"))
    monkeypatch.setattr(
        verbs, "LocalEngine", lambda worker, **told: SimpleNamespace(worker=worker, close=lambda: None, **told)
    )
    with verbs._engine(load_lock(table), RunOptions(**given)) as made:
        engine: Any = made
    assert asked == [jobs, memory] and engine.worker.slots == slots
    assert engine.tick == (None if "farm" in given else "look"), "a farm's build governs its own compilers"


def test_paths_of_a_table_are_relative_to_the_table(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "matrix.toml").write_text(f'{TEXT}[defaults]\ncache = "my cache"\n', encoding="utf-8")
    lock = matrix_plan(folder / "matrix.toml", workspace=tmp_path / "work", machine=HERE)
    assert lock.defaults.cache == str(folder / "my cache") and lock.defaults.source == "git"


def test_a_run_counts_what_it_started_and_the_time_beside_the_cells(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    class Ran:
        def __init__(self, cells: Any, ledger: Any, *_: object, **named: Any) -> None:
            told.append({**named, "ledger": ledger})

        def run(self) -> SimpleNamespace:
            for folder in folders(table):
                old = folder.state().attempts
                new = Attempt(number=len(old) + 1, started=100.0, ended=103.0 if not old else None)
                folder.save(CellState(id=folder.id, stage="failed", attempts=(*old, new)))
            return SimpleNamespace(started=2, retried=1, adopted=0, busy_seconds=20.0)

    monkeypatch.setattr(verbs, "Loop", Ran)
    monkeypatch.setattr(verbs, "_engine", lambda lock, options: contextlib.nullcontext())
    first = verbs.matrix_run(table, farm="here", trace=table.with_name("trace.json"))
    assert (first.started, first.retried, first.adopted, first.overhead_seconds) == (2, 1, 0, 7.0)
    assert first.report == str(table.parent / "work" / "report.html") and first.status.counts["failed"] == 2
    again = verbs.matrix_run(table)
    assert again.overhead_seconds == 10.0, "only what this run began counts, and what did not end took no time"
    assert [each["ledger"].traces for each in told] == [True, False] and told[0]["ledger"].farm == "here"
    assert told[0]["wait_seconds"] == load_lock(table).defaults.wait_for_workers_minutes * 60 > 0


def test_a_node_of_the_script_gets_eight_cores_or_as_many_as_were_asked_for(table: Path) -> None:
    assert "#SBATCH --cpus-per-task=8\n" in matrix_slurm(table).text
    assert "#SBATCH --cpus-per-task=3\n" in matrix_slurm(table, cores=3).text
    one = matrix_slurm(table, only=["3.11"])
    assert one.cells == 1 and matrix_slurm(table).cells == 2


def test_a_cluster_is_told_where_each_cell_is_cancelled(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "DaskEngine", lambda scheduler, **told: SimpleNamespace(scheduler=scheduler, **told))
    lock = load_lock(table)
    with verbs._engine(lock, RunOptions(engine="dask", scheduler="tcp://here:8786")) as made:
        engine: Any = made
    cell = lock.cells[0].id
    assert engine.scheduler == "tcp://here:8786" and engine.describe is verbs.this_worker
    assert engine.cancel_file(cell) == str(CellFolder(Path(lock.root), cell).cancel_file)


def test_a_local_cell_is_cancelled_by_its_mark(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs, "this_worker", lambda: Worker(name="here", system="linux-x86_64"))
    monkeypatch.setattr(verbs, "LocalEngine", lambda _, **told: SimpleNamespace(close=lambda: None, **told))
    first, second = folders(table)
    with verbs._engine(load_lock(table), RunOptions()) as made:
        engine: Any = made
        first.place.mkdir(parents=True, exist_ok=True)
        first.cancel_file.touch()
        assert [engine.cancelled(folder.id) for folder in (first, second)] == [True, False]
        assert engine.env[SHARED_JOBSERVER], "the compilers of all cells share one pool"


def test_proven_wheels_are_published_with_their_proof_and_others_are_called_unproven(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[tuple[list[str], str | None, list[str]]] = []

    def add(house: str, wheels: list[str], *, report: str | None, proofs: list[str], progress: object) -> None:
        added.append((wheels, report, proofs))

    monkeypatch.setattr("rekindle.api.index.index_add", add)
    monkeypatch.setattr("rekindle.api.index.index_build", lambda *_, **__: None)
    first, second = folders(table)
    wheels = [make_wheel(folder.wheels, "torch", "2.6.0", tag=tag) for folder, tag in
              ((first, "cp310-cp310-linux_x86_64"), (second, "cp311-cp311-linux_x86_64"))]  # fmt: skip
    first.save(CellState(id=first.id, stage="proven", wheel=str(wheels[0])))
    (first.wheels / "inspect.json").touch()
    second.save(CellState(id=second.id, stage="built", wheel=str(wheels[1])))
    done = matrix_publish(tmp_path / "house", table)
    assert done.added == (wheels[0].name, wheels[1].name) and done.unproven == (wheels[1].name,)
    assert done.wheelhouse == str(tmp_path / "house") and done.missing == ()
    assert added == [
        ([str(wheels[0])], str(first.wheels / "inspect.json"), [str(first.wheels / "verify.json")]),
        ([str(wheels[1])], None, []),
    ]


def test_the_cells_lie_beside_the_table_unless_another_place_is_named(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(TEXT, encoding="utf-8")
    assert matrix_plan(file, machine=HERE, dry_run=True).root == str(tmp_path / "lab-cells")
    assert matrix_plan(file, machine=HERE, dry_run=True, workspace=tmp_path / "w").root == str(tmp_path / "w")
    assert not matrix_plan(file, machine=HERE, dry_run=True).written and matrix_plan(file, machine=HERE).written
