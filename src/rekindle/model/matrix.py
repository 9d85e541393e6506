"""Many wheels from one table: the table as people write it, the cells it freezes into, and what became of each. A
*cell* is one wheel for one combination of the axes. Its id is the hash of what decides its bytes, so a cell that is
done stays done until something that matters changes."""

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from rekindle.model.document import Document, Part
from rekindle.model.plan import Plan, Reason

Stage = Literal["waiting", "running", "built", "proven", "failed", "cancelled"]
FailureClass = Literal["lost", "memory", "disk", "hang", "network", "compile", "setup", "proof", "bug"]
# The exit code of `matrix cell` where somebody else builds the cell.
BUSY_CODE = 75
AXES = ("torch", "python", "variant", "archs", "card", "cpu", "system")


class Table(Part, frozen=True, kw_only=True):
    """``matrix.toml``. ``axes`` maps an axis to its values; ``archs`` values may be lists."""

    axes: dict[str, tuple[str | tuple[str, ...], ...]]
    schema: int = 1
    project: str = "torch"
    companions: tuple[str, ...] = ()
    include: tuple[dict[str, Any], ...] = ()
    exclude: tuple[dict[str, Any], ...] = ()
    defaults: "Defaults | None" = None


class Defaults(Part, frozen=True, kw_only=True):
    """What holds for every cell. ``source`` is a directory, ``git``, ``debian`` or ``spark``; ``settings`` are switches
    of the tree (``USE_DISTRIBUTED = "0"``) on top of each plan's own."""

    source: str | None = None
    settings: dict[str, str] = {}
    target: str | None = None
    memory: str | None = None
    jobs: int | None = None
    launcher: str | None = None
    cache: str | None = None
    prove: Literal["none", "smoke", "full"] = "smoke"
    hang_minutes: float = 30.0
    wait_for_workers_minutes: float = 10.0


class Cell(Document, frozen=True, kw_only=True):
    """One wheel to be made. ``tree`` names the compiled tree it shares with cells that differ only in Python;
    ``after`` are cells whose wheels it needs; ``minutes`` is an estimate for a cold build."""

    id: str
    name: str
    project: str
    axes: dict[str, str]
    plan: Plan
    tree: str
    source: str
    identity: str
    system: str
    python: str
    toolchain: dict[str, str] = {}
    target: str | None = None
    prove: Literal["none", "smoke", "full"] = "smoke"
    after: tuple[str, ...] = ()
    minutes: float = 60.0
    memory_gib: float = 2.0
    disk_gib: float = 1.0
    cuda: str | None = None


class RefusedCell(Part, frozen=True, kw_only=True):
    """A combination that cannot work, and why."""

    name: str
    axes: dict[str, str]
    because: tuple[Reason, ...]


class MatrixCost(Part, frozen=True, kw_only=True):
    """Estimates: ``serial_hours`` one after another with shared trees, ``cold_hours`` without sharing."""

    serial_hours: float
    cold_hours: float
    disk_gib: float
    trees: int


class MatrixLock(Document, frozen=True, kw_only=True):
    """``matrix.lock``: every cell planned and fixed by a version of ``rekindle``; a dry run is not ``written``."""

    rekindle: str
    table: str
    table_sha256: str
    root: str
    cells: tuple[Cell, ...]
    refused: tuple[RefusedCell, ...] = ()
    cost: MatrixCost
    defaults: Defaults = Defaults()
    written: bool = True


class Attempt(Part, frozen=True, kw_only=True):
    """One try at a cell. Times are seconds since 1970."""

    number: int
    started: float
    ended: float | None = None
    host: str = ""
    failure: FailureClass | None = None
    message: str = ""
    jobs: int | None = None


class CellState(Document, frozen=True, kw_only=True):
    """What is known of a cell, as its directory says."""

    id: str
    stage: Stage = "waiting"
    attempts: tuple[Attempt, ...] = ()
    phase: str = ""
    wheel: str | None = None
    wheel_sha256: str | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    cache: dict[str, str] = {}
    steps: int | None = None
    targets: tuple[str, ...] = ()
    proof: str = ""
    diagnosis: str = ""
    log: str | None = None

    @property
    def failure(self) -> FailureClass | None:
        """The class of the last attempt's failure."""
        return self.attempts[-1].failure if self.attempts else None

    @property
    def message(self) -> str:
        """What the last attempt said."""
        return self.attempts[-1].message if self.attempts else ""


class Worker(Part, frozen=True, kw_only=True):
    """A place that builds, as its own doctor describes it. None means: nobody knows, so anything may go there."""

    name: str
    system: str
    slots: int = 1
    memory_gib: float | None = None
    cuda: tuple[str, ...] | None = None
    pythons: tuple[str, ...] | None = None


class CellRow(Part, frozen=True, kw_only=True):
    """One line of the status: the cell, its state, and whether it will be built, with the reason."""

    cell: str
    name: str
    state: CellState
    rebuild: bool
    because: str


class MatrixStatus(Document, frozen=True, kw_only=True):
    """Where every cell of a matrix stands."""

    root: str
    rows: tuple[CellRow, ...]
    refused: tuple[RefusedCell, ...] = ()
    counts: dict[str, int] = {}

    @property
    def good(self) -> bool:
        """Every cell that can be built is built."""
        return all(row.state.stage in ("built", "proven") for row in self.rows)


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``matrix run`` can be told; everything has a default.

    only       cells by id or part of the name
    engine     local, or dask with the address of its ``scheduler``
    slots      cells at once on this machine (default: its cores, at most 4)
    memory     what all compilers together may use, such as ``12G``
    farm       compile on a farm's machines: its folder, or "" for the user's own; one cell at a time has all of it
    farm_check, trace   as in a build; the time line is of all cells
    force      build the chosen cells again even if they are done"""

    only: tuple[str, ...] = ()
    engine: str = "local"
    scheduler: str | None = None
    slots: int | None = None
    memory: str | None = None
    farm: str | None = None
    farm_check: int | None = None
    trace: Path | None = None
    force: bool = False


class MatrixRun(Document, frozen=True, kw_only=True):
    """What one ``matrix run`` did."""

    engine: str
    status: MatrixStatus
    seconds: float
    started: int
    retried: int
    adopted: int
    overhead_seconds: float
    report: str | None = None


class MatrixScript(Document, frozen=True, kw_only=True):
    """A script for a batch system, to be read and submitted by hand."""

    text: str
    cells: int


class Published(Document, frozen=True, kw_only=True):
    """Wheels that went into a wheelhouse, and cells that had none to give."""

    wheelhouse: str
    added: tuple[str, ...]
    unproven: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    same_name: tuple[str, ...] = ()  # cells whose wheel is called as another cell's


class ProposedWheel(Part, frozen=True, kw_only=True):
    """One wheel to build, and the machines that it serves."""

    torch: str
    variant: str
    python: str
    system: str
    archs: tuple[str, ...]
    serves: tuple[str, ...]
    cpu: str | None = None


class Proposal(Document, frozen=True, kw_only=True):
    """``matrix propose``: the fewest wheels for a list of machines as a ``table``; ``official`` are machines that need
    none (the line that installs their torch), ``unserved`` those that nothing serves (why)."""

    table: str
    wheels: tuple[ProposedWheel, ...] = ()
    official: dict[str, str] = {}
    unserved: dict[str, str] = {}
    path: str | None = None


class Simulation(Document, frozen=True, kw_only=True):
    """A run of the real scheduler against a model of workers."""

    cells: int
    workers: int
    makespan_hours: float
    lower_bound_hours: float
    ratio: float
    failures: int
    lost_hours: float
    scheduler_cpu_seconds: float
    built: int
    unbuilt: int


def slurm_text(module: str, marks: Mapping[str, str], **head: Any) -> str:
    """``slurm.sh`` beside a ``module`` (its ``__file__``) below :func:`slurm_head`, with each ``@NAME@`` in it."""
    text = Path(module).with_name("slurm.sh").read_text(encoding="utf-8")
    values = {**marks, "HEAD": slurm_head(**head), "PYTHON": shlex.quote(sys.executable)}
    return re.sub(r"@([A-Z]+)@", lambda mark: values[mark[1]], text)


def slurm_head(*, job: str, cores: int, memory_gib: int, hours: int, log: str, array: int | None = None) -> str:
    """``array`` is how many tasks there are. TERM comes two minutes before the end, so that a build stops in order."""
    tasks = () if array is None else (f"--array=0-{max(0, array - 1)}",)
    room = ("--nodes=1", f"--cpus-per-task={cores}", f"--mem={memory_gib}G", f"--time={hours}:00:00")
    # A task that is queued again goes on with its log instead of beginning it anew.
    ends = ("--requeue", "--signal=B:TERM@120", f"--output={log}", "--open-mode=append")
    asked = (f"--job-name={job}", *tasks, *room, *ends)
    return "\n".join(["#!/bin/bash", *(f"#SBATCH {word}" for word in asked)])
