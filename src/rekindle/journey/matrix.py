"""``matrix``: many wheels from one table, on this machine, on a Dask cluster or as a Slurm array."""

import contextlib
import hashlib
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.errors import BadInput
from rekindle.host.files import write_for_user
from rekindle.host.made import mark_made
from rekindle.host.process import stop_signals_as_interrupt
from rekindle.host.processes import cores as cores_here
from rekindle.matrix.engine import DaskEngine, Engine, LocalEngine
from rekindle.matrix.ledger import CellFolder, DirectoryLedger
from rekindle.matrix.run import Loop, slurm_script
from rekindle.matrix.simulate import simulate
from rekindle.model import matrix as model
from rekindle.model.build_options import memory_budget
from rekindle.model.document import encode, load
from rekindle.model.machine import Machine
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Progress, Silent

TABLE = Path("matrix.toml")


def lock_file(table: Path) -> Path:
    """Where the table keeps what it resolved to."""
    return table.with_suffix(".lock")


def matrix_plan(
    table: Path = TABLE,
    *,
    workspace: Path | None = None,
    machine: Machine | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> model.MatrixLock:
    """Plan every cell of the table and freeze them into ``matrix.lock`` beside it; the cells are kept in ``workspace``
    (default: ``NAME-cells`` beside the table)."""
    from rekindle.build.request import names_places
    from rekindle.journey.matrix_cells import freeze

    root = (workspace or table.with_name(f"{table.stem}-cells")).absolute()
    lock = freeze(table, root, machine=machine, progress=progress or Silent())
    if dry_run:
        return replace(lock, written=False)
    write_for_user(lock_file(table), encode(lock))
    # The cells are ours where the planner alone decided what runs; programs that the table names are its maker's.
    by_table = Plan(answer="build", build=BuildRecipe(source="", env=dict(lock.defaults.settings)))
    if not names_places(by_table):
        mark_made(*lock.cells)
    return lock


def load_lock(table: Path = TABLE) -> model.MatrixLock:
    """The frozen matrix; one that belongs to another table or another Rekindle is refused."""
    file = lock_file(table)
    if not file.is_file():
        raise BadInput(f"there is no {file}", remedy=f"rekindle matrix plan {table}")
    lock = load(file, model.MatrixLock)
    with contextlib.suppress(OSError):
        if hashlib.sha256(table.read_bytes()).hexdigest() != lock.table_sha256:
            raise BadInput(f"{table} has changed since {file} was made", remedy=f"rekindle matrix plan {table}")
    return lock


def matrix_status(table: Path = TABLE) -> model.MatrixStatus:
    """What is known of every cell, and whether the next run builds it."""
    lock = load_lock(table)
    return _status(lock, lock.cells)


def _status(lock: model.MatrixLock, cells: Sequence[model.Cell], *, fresh_run: bool = True) -> model.MatrixStatus:
    ledger = _open_ledger(lock)
    rows = []
    counts: Counter[str] = Counter()
    for cell in cells:
        state = ledger.folder(cell).state()
        held = state.stage == "running" and ledger.held(cell)
        build, because, _ = ledger.decide(cell, fresh_run=fresh_run)
        counts[state.stage if held or state.stage != "running" else "lost"] += 1
        why = "being built now" if held else because
        rows.append(model.CellRow(cell=cell.id, name=cell.name, state=state, rebuild=build and not held, because=why))
    if lock.refused:
        counts["refused"] = len(lock.refused)
    return model.MatrixStatus(root=lock.root, rows=tuple(rows), refused=lock.refused, counts=dict(counts))


def _open_ledger(lock: model.MatrixLock, force: Sequence[str] = ()) -> DirectoryLedger:
    return DirectoryLedger(root=Path(lock.root), defaults=lock.defaults, cores=cores_here(), force=frozenset(force))


def _chosen(lock: model.MatrixLock, only: Sequence[str]) -> list[model.Cell]:
    """Cells by id, by name or by a part of the name; what is named must be there."""
    named = {text: {cell.id for cell in lock.cells if cell.id.startswith(text) or text in cell.name} for text in only}
    if unknown := [text for text, ids in named.items() if not ids]:
        raise BadInput(f"no cell is called {unknown[0]!r}", remedy="'rekindle matrix status' lists them")
    return [cell for cell in lock.cells if not only or any(cell.id in ids for ids in named.values())]


def matrix_run(
    table: Path = TABLE,
    options: model.RunOptions | None = None,
    *,
    trust: bool = False,
    progress: Progress | None = None,
    **choices: Any,
) -> model.MatrixRun:
    """Build what is not built, prove what can be proven; interrupted, the same call continues.

    What can be chosen are the fields of :class:`~rekindle.model.matrix.RunOptions`: given as that value, or each by
    name. Cells that were not frozen here, or whose table names programs, are refused
    (:class:`rekindle.errors.Untrusted`) unless ``trust`` is given.
    """
    from rekindle.build.report import join_traces
    from rekindle.journey.matrix_work import admit_cells

    listener = progress or Silent()
    chosen = replace(options or model.RunOptions(), **choices)
    lock = load_lock(table)
    cells = _chosen(lock, chosen.only)
    admit_cells(cells, trust=trust)
    ledger = _open_ledger(lock, [cell.id for cell in cells] if chosen.force else ())
    ledger.farm, ledger.farm_check, ledger.traces = chosen.farm, chosen.farm_check, chosen.trace is not None
    begun = time.monotonic()
    before = {cell.id: len(ledger.folder(cell).state().attempts) for cell in cells}
    wait = lock.defaults.wait_for_workers_minutes * 60
    with stop_signals_as_interrupt(), _engine(lock, chosen) as port:
        tally = Loop(cells, ledger, port, time.monotonic, wait_seconds=wait, say=listener.note).run()
    if chosen.trace is not None:
        join_traces(chosen.trace, [(cell.name, ledger.folder(cell).trace) for cell in cells])
    status = _status(lock, cells, fresh_run=False)
    attempts = [attempt for row in status.rows for attempt in row.state.attempts[before[row.cell] :]]
    seconds = sum((attempt.ended or attempt.started) - attempt.started for attempt in attempts)
    return model.MatrixRun(
        engine=chosen.engine,
        status=status,
        seconds=round(time.monotonic() - begun, 2),
        started=tally.started,
        retried=tally.retried,
        adopted=tally.adopted,
        overhead_seconds=round(max(0.0, tally.busy_seconds - seconds) / max(1, tally.started), 3),
        report=str(Path(lock.root) / "report.html"),
    )


@contextlib.contextmanager
def _engine(lock: model.MatrixLock, options: model.RunOptions) -> Iterator[Engine]:
    """A Dask cluster, or this machine with one jobserver and one governor for the compilers of all cells."""
    from rekindle.build.governor import SHARED_JOBSERVER, governed_jobs

    root = Path(lock.root)

    def cancel_file(cell: str) -> Path:
        return CellFolder(root, cell).cancel_file

    if options.engine == "dask":
        if not options.scheduler:
            raise BadInput("--engine dask needs --scheduler ADDRESS", remedy="for example tcp://127.0.0.1:8786")
        yield DaskEngine(options.scheduler, describe=this_worker, cancel_file=lambda cell: str(cancel_file(cell)))
        return
    if options.engine != "local":
        remedy = "local or dask; for Slurm: rekindle matrix slurm"
        raise BadInput(f"there is no engine {options.engine!r}", remedy=remedy)
    size = options.memory or lock.defaults.memory
    # Every cell's Ninja has one job of its own besides what it takes from the common pool.
    most, budget = lock.defaults.jobs or cores_here(), memory_budget(size) if size else None
    # A farm's build governs its own compilers: one at a time.
    at_once = min(4, cores_here()) if options.farm is None else 1
    with governed_jobs(root / "history.json", f"matrix {lock.root}", most, budget) as jobs:
        engine = LocalEngine(
            replace(this_worker(), slots=options.slots or at_once),
            env={SHARED_JOBSERVER: jobs.env["MAKEFLAGS"]},
            tick=jobs.governor.look if options.farm is None else None,
            cancelled=lambda cell: CellFolder(root, cell).cancel_file.exists(),
        )
        with contextlib.closing(engine):
            yield engine


def this_worker() -> model.Worker:
    """What this machine offers, as its doctor says. Runs on workers."""
    from rekindle.api.plan_torch import this_machine

    machine = this_machine()
    return model.Worker(
        name=platform.node() or "here",
        system=f"{machine.os.system}-{machine.os.arch or platform.machine()}",
        memory_gib=machine.memory_gib,
        cuda=tuple(t.version for t in machine.toolkits if t.kind == "cuda" and t.version),
        pythons=tuple(p.version for p in machine.pythons),
    )


def matrix_cancel(table: Path = TABLE, *, only: Sequence[str] = ()) -> model.MatrixStatus:
    """Ask every running cell to stop; whoever runs it sees the mark within a second."""
    lock = load_lock(table)
    cells = _chosen(lock, only)
    ledger = _open_ledger(lock)
    for cell in filter(ledger.held, cells):
        ledger.folder(cell).cancel_file.touch()
    return _status(lock, cells, fresh_run=False)


def matrix_publish(
    wheelhouse: Path, table: Path = TABLE, *, only: Sequence[str] = (), progress: Progress | None = None
) -> model.Published:
    """Put every built wheel into a wheelhouse, with its inspection and, where there is one, its proof."""
    from rekindle.api.index import index_add, index_build

    lock = load_lock(table)
    house = str(wheelhouse)
    added, unproven, missing, same_name = [], [], [], []
    for cell in _chosen(lock, only):
        folder = CellFolder(Path(lock.root), cell.id)
        state, report = folder.state(), folder.wheels / "inspect.json"
        name, proven = Path(state.wheel or "").name, state.stage == "proven"
        if not state.wheel or not (proven or state.stage == "built"):
            missing.append(cell.name)
        elif name in added:
            same_name.append(cell.name)
        else:
            proofs = [str(folder.wheels / "verify.json")] if proven else []
            seen = str(report) if report.is_file() else None
            index_add(house, [state.wheel], report=seen, proofs=proofs, progress=progress)
            added.append(name)
            unproven += [] if proven else [name]
    if added:
        index_build(house, progress=progress)
    return model.Published(
        wheelhouse=house,
        added=tuple(added),
        unproven=tuple(unproven),
        missing=tuple(missing),
        same_name=tuple(same_name),
    )


def matrix_slurm(
    table: Path = TABLE, *, only: Sequence[str] = (), cores: int = 8, trust: bool = False
) -> model.MatrixScript:
    """The matrix as a Slurm array script, its cells written out for ``matrix cell``. The nodes do not ask: cells from
    elsewhere are refused here."""
    from rekindle.journey.matrix_work import admit_cells

    lock = load_lock(table)
    cells = _chosen(lock, only)
    admit_cells(cells, trust=trust)
    for cell in cells:
        CellFolder(Path(lock.root), cell.id).freeze(cell)
    return slurm_script(cells, lock.root, cores=cores)


def matrix_simulate(
    table: Path = TABLE, *, workers: int = 200, copies: int = 1, failure_rate: float = 0.02, seed: int = 1
) -> model.Simulation:
    """The real scheduler against a model of ``workers``; ``copies`` multiplies the table's cells."""
    cells = []
    for number in range(copies):
        for cell in load_lock(table).cells:
            names = {"id": f"{number:04x}{cell.id[4:]}", "tree": f"{number:04x}{cell.tree[4:]}", "after": ()}
            cells.append(replace(cell, **names) if copies > 1 else cell)
    return simulate(cells, workers, failure_rate=failure_rate, seed=seed)


def matrix_watch(table: Path = TABLE, *, every: float = 1.0) -> Iterator[model.MatrixStatus]:
    """The status again and again, until nothing runs any more."""
    while True:
        status = matrix_status(table)
        yield status
        if not any(row.state.stage == "running" and not row.rebuild for row in status.rows):
            return
        time.sleep(every)
