"""Many wheels from one table: planned first, built on this machine, a Dask cluster or Slurm, never twice."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.cli.plan import add_farm, add_trace
from rekindle.cli.verb import Answer, Session, add_common, add_repeatable, after_a_yes, place_for, read_options
from rekindle.errors import WorkspaceBusy

if TYPE_CHECKING:
    from rekindle.model.matrix import MatrixStatus

STEPS = {
    "propose": "from a list of machines to the fewest wheels that serve all, as a table",
    "plan": "plan every cell and freeze them; nothing is built",
    "run": "build what is not built and prove it; the same command continues",
    "status": "what became of each cell, and whether the next run builds it",
    "watch": "the status, live, until nothing runs",
    "report": "one HTML page of all cells",
    "cancel": "stop cells that run, here or elsewhere",
    "publish": "put the built wheels into a wheelhouse",
    "slurm": "print a Slurm array script",
    "simulate": "the scheduler against a model of many workers",
    "cell": "build one frozen cell here (what workers call)",
}

_QUESTION = "These cells were not planned here, or their table names programs. Build them?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    steps = parser.add_subparsers(dest="step", metavar="STEP", required=True)
    for name, summary in STEPS.items():
        sub = steps.add_parser(name, help=summary, description=summary)
        add_common(sub, inner=True)
        if name == "propose":
            what = "a card, a profile, a file of doctor's, or a CSV file with columns gpu, driver, os, python"
            sub.add_argument("machines", nargs="+", metavar="MACHINE", help=what)
            sub.add_argument("--python", metavar="VERSION", help="for machines that do not say which")
            sub.add_argument("--out", metavar="FILE", help="write the table there (default: print it)")
        elif name == "cell":
            sub.add_argument("cell", help="its id")
            sub.add_argument("--root", required=True, metavar="DIR", help="the directory of the matrix")
        else:
            sub.add_argument("table", nargs="?", default="matrix.toml", help="the table (default: matrix.toml)")
        if name in ("run", "cancel", "publish", "slurm"):
            add_repeatable(sub, "--only", "CELL", "id or part of the name")
        if name in ("run", "cell", "slurm"):
            unasked = "build cells that were not frozen here without asking"
            sub.add_argument("--trust", action="store_true", help=unasked)
        if name in ("run", "cell"):
            sub.add_argument("--memory", metavar="SIZE", help="what all compilers together may use, such as 12G")
            add_farm(sub)
            add_trace(sub)
        _add_step(name, sub)


def _add_step(name: str, sub: argparse.ArgumentParser) -> None:
    if name == "plan":
        sub.add_argument("--workspace", metavar="DIR", help="where the cells go (default: NAME-cells beside the table)")
        sub.add_argument("--dry-run", action="store_true", help="show the cells and write nothing")
    elif name == "run":
        sub.add_argument("--engine", choices=("local", "dask"), default="local", help="who builds (default: local)")
        sub.add_argument("--scheduler", metavar="ADDRESS", help="dask: tcp://HOST:PORT")
        sub.add_argument("--slots", type=int, metavar="N", help="local: cells at once (default: cores, at most 4)")
        sub.add_argument("--force", action="store_true", help="build chosen cells again even if they are done")
    elif name == "cell":
        sub.add_argument("--jobs", type=int, metavar="N", help="never more compilers than this")
        sub.add_argument("--launcher", metavar="NAME", help="ccache or sccache")
        sub.add_argument("--force", action="store_true", help="build it again even if it is done")
    elif name == "report":
        sub.add_argument("--out", metavar="FILE", help="where to write it (default: report.html of the matrix)")
    elif name == "publish":
        sub.add_argument("--wheelhouse", required=True, metavar="DIR", help="made if it does not exist")
    elif name == "slurm":
        sub.add_argument("--cores", type=int, default=8, metavar="N", help="cores for each task (default: 8)")
    elif name == "simulate":
        sub.add_argument("--workers", type=int, default=200, metavar="N", help="how many (default: 200)")
        sub.add_argument("--copies", type=int, default=1, metavar="N", help="multiply the cells (default: 1)")
        chance = "chance that a task's worker dies"
        sub.add_argument("--failures", dest="failure_rate", type=float, default=0.02, metavar="P", help=chance)
        sub.add_argument("--seed", type=int, default=1, metavar="N", help="another seed, another world")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.matrix import RunOptions
    from rekindle.render.matrix import write_report

    progress = session.progress
    if args.step == "cell":
        return _run_cell(args, session)
    if args.step == "propose":
        out = Path(args.out) if args.out else None
        proposal = api.matrix_propose(args.machines, python=args.python, out=out)
        return Answer(proposal, good=not proposal.unserved)
    table, asked = Path(args.table), functools.partial(after_a_yes, session, _QUESTION)
    if args.step == "plan":
        workspace = Path(args.workspace) if args.workspace else None
        lock = api.matrix_plan(table, workspace=workspace, dry_run=args.dry_run, progress=progress)
        return Answer(lock, good=lock.cells)
    if args.step == "run":
        options = read_options(RunOptions, args)
        done = asked(lambda trust: api.matrix_run(table, options, trust=trust or args.trust, progress=progress))
        if done.report:
            write_report(done.status, Path(done.report))
        return Answer(done, good=done.status.good)
    if args.step == "publish":
        published = api.matrix_publish(Path(args.wheelhouse), table, only=args.only, progress=progress)
        return Answer(published, good=published.added)
    if args.step == "slurm":
        return Answer(asked(lambda trust: session.call(api.matrix_slurm, args, table, trust=trust or args.trust)))
    if args.step == "simulate":
        return Answer(session.call(api.matrix_simulate, args, table))
    if args.step == "watch":
        status = _watch(table, session)
    elif args.step == "cancel":
        status = api.matrix_cancel(table, only=args.only)
    else:
        status = api.matrix_status(table)
    if args.step == "report":
        out = place_for(args.out, "report.html") if args.out else Path(status.root) / "report.html"
        write_report(status, out)
        progress.note(f"wrote {out}")
    return Answer(status, good=status.good)


def _run_cell(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.matrix import BUSY_CODE

    try:
        state = session.call(api.matrix_cell, args, Path(args.root), args.cell)
    except WorkspaceBusy as busy:
        sys.stderr.write(f"rekindle: {busy.message}\n")
        raise SystemExit(BUSY_CODE) from None
    return Answer(state, good=state.stage in ("built", "proven"))


def _watch(table: Path, session: Session) -> MatrixStatus:
    """Redrawn in place on a terminal; elsewhere a line per change."""
    from rekindle import api
    from rekindle.render.matrix import Live

    live = Live(sys.stderr, quiet=session.quiet)
    for status in api.matrix_watch(table):
        live.show(status)
    return status
