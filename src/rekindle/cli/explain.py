import sys
from pathlib import Path
from typing import Any, BinaryIO

from rekindle import api
from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput

TAKES_COMMAND = True
# For a report the log is read twice, so a pipe is held in memory up to this size.
MAX_PIPE_BYTES = 64 << 20


def run(session: Session) -> Answer:
    """A build log, a traceback or an error line into cause and fix.

    Logs of any size and encoding are read; the root error is told from its consequences. Where no cause is known it
    says so, names the kind of failure and how to go on; it never guesses. After '--' a command is run, its output shown
    as it is and its exit code kept; if it fails, the failure is explained.
    """
    from rekindle.render.diagnosis import view_pages

    args = session.args
    if args.list:
        return Answer(api.explain_list())
    if args.rule:
        return Answer(api.explain_rule(args.rule), view=view_pages)
    if getattr(args, "command", None) is not None:
        return _run_command(session)
    if args.fix:
        remedy = "rekindle explain --fix -- COMMAND"
        raise BadInput("--fix runs the command again to see whether it helped", remedy=remedy)
    if args.watch:
        diagnosis = api.explain_watch(args.watch, **_circumstances(session))
    else:
        if not args.source and (sys.stdin is None or sys.stdin.isatty()):
            raise BadInput("name a log, '-' or the text of the error", remedy="rekindle explain build.log")
        source = _source(args.source or ["-"], twice=bool(args.save_report))
        if args.trial:
            trials = api.explain_try(args.trial, source)
            return Answer(trials, good=any(trial.outcome == "won" for trial in trials.trials))
        diagnosis = api.explain(source, **_circumstances(session))
        if args.save_report and isinstance(source, (Path, str, bytes)):
            api.explain_report(source, diagnosis, args.save_report)
            session.progress.note(f"saved {args.save_report}")
    # Words quoted where no cause is known are a help, not an answer.
    return Answer(diagnosis, good=bool(diagnosis.matches) and diagnosis.unexplained is None)


def _run_command(session: Session) -> Answer:
    """Its output passes through; with ``--json`` to standard error, where it does not disturb the document."""
    from rekindle.render.diagnosis import view_nothing

    args = session.args
    if args.source or args.watch:
        raise BadInput("name a log or a command, not both", remedy="rekindle explain -- pip install torch")
    if not args.command:
        raise BadInput("name the command to run after '--'", remedy="rekindle explain -- pip install torch")
    out = sys.stderr.buffer if session.json else sys.stdout.buffer
    if args.fix:
        from rekindle.journey.fix import fix_command
        from rekindle.render.diagnosis import view_fixes

        err, say = sys.stderr.buffer, session.progress.note
        report = fix_command(args.command, out=out, err=err, confirm=session.confirm, say=say)
        return Answer(document=report, view=view_fixes, exit_code=report.exit_code)
    diagnosis = api.explain_command(args.command, out=out, err=sys.stderr.buffer, **_circumstances(session))
    return Answer(diagnosis, exit_code=diagnosis.exit_code, view=None if diagnosis.exit_code else view_nothing)


def _source(words: list[str], *, twice: bool) -> Path | str | bytes | BinaryIO:
    """What was named. A pipe streams, unless it is needed twice."""
    text = " ".join(words)
    if text == "-":
        if not twice:
            return sys.stdin.buffer
        raw = sys.stdin.buffer.read(MAX_PIPE_BYTES + 1)
        if len(raw) > MAX_PIPE_BYTES:
            remedy = "save it to a file and name the file"
            raise BadInput(f"a report of more than {MAX_PIPE_BYTES >> 20} MiB from a pipe", remedy=remedy)
        return raw
    if len(words) == 1 and len(text) < 1024 and "\n" not in text:
        path = Path(text)
        if path.exists():
            return path
        if " " not in text and ("/" in text or "\\" in text or text.endswith((".log", ".txt", ".out"))):
            raise BadInput(f"there is no file {text}", remedy="name an existing log, '-' or the text of the error")
    return text


def _circumstances(session: Session) -> dict[str, Any]:
    """Where it happened, to which plan and torch, as far as that was said."""
    from rekindle.model.document import load
    from rekindle.model.plan import Plan

    args = session.args
    where, torch = args.machine, args.torch
    machine = None
    if where is not None:
        machine = api.this_machine() if where == "this" else api.find_machine(where)[0]
    return {
        "machine": machine,
        "plan": load(args.plan, Plan) if args.plan else None,
        "wheel": None if torch is None else api.installed_torch(torch or None, progress=session.progress),
    }
