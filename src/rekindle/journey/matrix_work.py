"""One cell carried out on the machine it lands on: source, build, reading back, proof; its directory tells the rest."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.api.build_wheels import admit_here, build_one
from rekindle.api.inspect_wheel import inspect
from rekindle.api.plan_torch import this_machine
from rekindle.api.source import patch_spark, source_fetch, source_patch
from rekindle.api.verify_torch import verify
from rekindle.compat.processor import CHOOSING, features_of, missing
from rekindle.errors import BadInput, MissingTool, NotReady, RekindleError, WorkspaceBusy
from rekindle.facts import load_facts
from rekindle.host.files import write_atomically
from rekindle.host.workspace import Workspace
from rekindle.matrix import ledger
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import encode
from rekindle.model.machine import Cpu
from rekindle.model.matrix import Cell, CellState
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SourceTree
from rekindle.spark.unpack import unpack


def matrix_cell(
    root: Path,
    cell_id: str,
    options: BuildOptions | None = None,
    *,
    force: bool = False,
    trust: bool = False,
    progress: Progress | None = None,
    **choices: Any,
) -> CellState:
    """Build, read back and prove one frozen cell here: what workers and batch scripts call. One that is done already
    stays as it is, since a task that was thought lost may come a second time.

    Of the options only those for the compilers count (``jobs``, ``memory``, ``farm`` …): given as that value, or by
    name. Raises WorkspaceBusy where somebody else builds it, Untrusted where the cell was not frozen here and ``trust``
    is not given, as ``matrix_run`` was told.
    """
    options, listener = replace(options or BuildOptions(), **choices), progress or Silent()
    folder = ledger.CellFolder(root.absolute(), cell_id)
    cell = folder.cell()
    with ledger.hold_cell(folder):
        state = folder.state()
        if ledger.is_done(cell, state) and not force:
            return state
        admit_cells([cell], trust=trust)
        state = ledger.begin_attempt(state, jobs=options.jobs)
        folder.save(state)
        try:
            state = _make_attempt(folder, cell, state, options, listener)
        except WorkspaceBusy:
            raise
        except (RekindleError, OSError) as error:
            setup = isinstance(error, BadInput | MissingTool | NotReady | OSError)
            kind = ledger.classify(str(error), default="setup" if setup else "compile")
            state = ledger.fail_attempt(state, kind, str(error))
        folder.save(state)
    return state


def admit_cells(cells: Sequence[Cell], *, trust: bool) -> None:
    """The door of a matrix: a cell that was not frozen here is refused, with what it would run."""
    for cell in cells:
        admit_here(cell.plan, trust=trust, document=cell, kind=f"matrix's cell {cell.name}", python=cell.python)


def _make_attempt(
    folder: ledger.CellFolder, cell: Cell, state: CellState, options: BuildOptions, progress: Progress
) -> CellState:
    workspace = Workspace(ledger.tree_place(folder.root, cell.tree))
    with workspace.lock("matrix", wait=6 * 3600.0, say=progress.note):
        progress.stage("source", cell.identity)
        folder.save(replace(state, phase="source"))
        tree = _prepare_source(cell, folder, workspace, progress)
        write_atomically(workspace.plan, encode(cell.plan))
        folder.save(replace(state, phase="build"))
        chosen = replace(
            options,
            plan=cell.plan,
            source=tree,
            workspace=workspace.root,
            pythons=(cell.python,),
            target=cell.target,
            # The wheel of the torch cell that a companion is compiled against.
            against=next((ledger.CellFolder(folder.root, torch).state().wheel for torch in cell.after), None),
        )
        outcome = build_one(chosen, progress, trust=True)
        if isinstance(outcome, BuildFailure):
            names = tuple(match.id for match in outcome.diagnosis.matches[:2])
            kind = ledger.classify(outcome.message, names)
            return ledger.fail_attempt(state, kind, outcome.message, diagnosis=", ".join(names), log=outcome.log or "")
        state = _keep_wheel(folder, state, outcome)
    folder.save(replace(state, phase="proof"))
    return _prove_wheel(folder, cell, state, progress)


def _prepare_source(cell: Cell, folder: ledger.CellFolder, workspace: Workspace, progress: Progress) -> SourceTree:
    """The cell's sources, patched, in the tree's own workspace. A directory is copied: builds write into trees."""
    plan_file = folder.place / "plan.json"
    write_atomically(plan_file, encode(cell.plan))
    root = workspace.source / cell.project
    ready = root.with_name(f"{cell.project}.ready")
    if not (root.is_dir() and ready.is_file() and ready.read_text(encoding="utf-8") == cell.identity):
        ready.unlink(missing_ok=True)
        if root.exists():
            shutil.rmtree(root)
        root.parent.mkdir(parents=True, exist_ok=True)
        if cell.source == "spark":
            unpack(root)
        elif cell.source in ("git", "debian"):
            source_fetch(root, project=cell.project, plan=plan_file, place=cell.source, progress=progress)
        else:
            part = root.with_name(f"{cell.project}.part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(cell.source, part, symlinks=True, ignore=shutil.ignore_patterns("build", ".git"))
            part.rename(root)
        write_atomically(ready, cell.identity)
    if cell.project == "spark":
        return patch_spark(root)
    tree = source_patch(root, plan=plan_file)
    if tree.conflicts:
        raise BadInput(f"patches do not apply: {', '.join(patch.id for patch in tree.conflicts)}")
    return tree


def _keep_wheel(folder: ledger.CellFolder, state: CellState, result: BuildResult) -> CellState:
    """The wheel and what lies beside it, copied into the cell's folder; the wheel last, so that it is never alone."""
    source = Path(result.wheel)
    if result.wheel:
        folder.wheels.mkdir(parents=True, exist_ok=True)
        for file in sorted(source.parent.glob(f"{source.name}*"), key=lambda each: each == source):
            part = folder.wheels / f".{file.name}.part"
            shutil.copy2(file, part)
            part.replace(folder.wheels / file.name)
    if result.report and Path(result.report).is_file():
        shutil.copy2(result.report, folder.place / "report.html")
    return replace(
        state,
        stage="built",
        wheel=str(folder.wheels / source.name) if result.wheel else None,
        wheel_sha256=result.wheel_sha256 or None,
        seconds=round(sum(phase.seconds for phase in result.phases), 2),
        peak_memory_bytes=result.peak_memory_bytes,
        cache=dict(result.launcher),
        steps=result.steps,
        log=result.log,
    )


def _prove_wheel(folder: ledger.CellFolder, cell: Cell, state: CellState, progress: Progress) -> CellState:
    """Inspected always; verified where asked for. A wheel that cannot be tried here stays ``built`` and says why."""
    if not state.wheel:
        return ledger.end_attempt(state)
    wheel = Path(state.wheel)
    progress.stage("inspect", wheel.name)
    report = inspect(state.wheel, cpu=False, progress=progress)
    write_atomically(folder.wheels / "inspect.json", encode(report))
    kernels = report.gpu.kernels
    state = replace(state, targets=tuple(map(str, (*kernels.sass, *kernels.gfx))))
    if cell.prove == "none":
        return ledger.end_attempt(replace(state, proof="not asked for"))
    features = features_of(Cpu(microarchitecture=cell.axes.get("cpu")), load_facts())
    if features is not None:
        unneeded, here = missing(CHOOSING, features), missing(CHOOSING, this_machine().cpu.features)
        if lacking := [isa for isa in here if isa not in unneeded]:
            why = f"not proven: this CPU lacks {', '.join(lacking[:3])}"
            return ledger.end_attempt(replace(state, proof=why))
    progress.stage("verify", cell.prove)
    plan, save = ledger.tree_place(folder.root, cell.tree) / "plan.json", folder.wheels / "verify.json"
    proof = verify(wheel=wheel, level=cell.prove, plan=plan, save=save, progress=progress)
    words = f"{proof.passed} passed, {proof.failed} failed, {proof.skipped} skipped"
    if proof.good:
        return ledger.end_attempt(replace(state, stage="proven", proof=words))
    return ledger.fail_attempt(replace(state, proof=words), "proof", f"its proof failed: {words}")
