import functools
import sys
from pathlib import Path

from rekindle import api
from rekindle.cli.verb import Answer, Session, after_a_yes, place_for
from rekindle.errors import WorkspaceBusy

_QUESTION = "These cells were not planned here, or their table names programs. Build them?"


def run(session: Session) -> Answer:
    """Many wheels from one table: planned first, built on this machine, a Dask cluster or Slurm, never twice."""
    from rekindle.model.matrix import RunOptions

    args, progress = session.args, session.progress
    if args.step == "cell":
        from rekindle.model.build_options import BuildOptions
        from rekindle.model.matrix import BUSY_CODE

        try:
            state = session.call(api.matrix_cell, args.root, args.cell, session.options(BuildOptions))
        except WorkspaceBusy as busy:
            sys.stderr.write(f"rekindle: {busy.message}\n")
            raise SystemExit(BUSY_CODE) from None
        return Answer(state, good=state.stage in ("built", "proven"))
    if args.step == "propose":
        proposal = session.call(api.matrix_propose, args.machines)
        return Answer(proposal, good=not proposal.unserved)
    table, asked = args.table, functools.partial(after_a_yes, session, _QUESTION)
    if args.step == "plan":
        lock = session.call(api.matrix_plan, table)
        return Answer(lock, good=lock.cells)
    if args.step == "run":
        options = session.options(RunOptions)
        done = asked(lambda trust: api.matrix_run(table, options, trust=trust or args.trust, progress=progress))
        if done.report:
            from rekindle.render.pages import write_report

            write_report(done.status, Path(done.report))
        return Answer(done, good=done.status.good)
    if args.step == "publish":
        published = session.call(api.matrix_publish, args.wheelhouse, table)
        return Answer(published, good=published.added)
    if args.step == "slurm":
        return Answer(asked(lambda trust: session.call(api.matrix_slurm, table, trust=trust or args.trust)))
    if args.step == "simulate":
        return Answer(session.call(api.matrix_simulate, table))
    if args.step == "watch":
        from rekindle.render.matrix import watch

        status = watch(api.matrix_watch(table), progress)
    elif args.step == "cancel":
        status = session.call(api.matrix_cancel, table)
    else:
        status = api.matrix_status(table)
    if args.step == "report":
        from rekindle.render.pages import write_report

        out = place_for(args.out, "report.html") if args.out else Path(status.root) / "report.html"
        write_report(status, out)
        progress.note(f"wrote {out}")
    return Answer(status, good=status.good)
