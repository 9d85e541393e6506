"""A build log, a traceback or an error line into cause and fix.

Logs of any size and encoding are read; the root error is told from its consequences. Where no cause is known it says
so, names the kind of failure and how to go on; it never guesses. After '--' a command is run, its output shown as it
is and its exit code kept; if it fails, the failure is explained.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from rekindle.cli.verb import Answer, Session, add_yes
from rekindle.errors import BadInput

if TYPE_CHECKING:
    from rekindle.model.diagnosis import Diagnosis
    from rekindle.model.machine import Machine
    from rekindle.model.plan import Plan
    from rekindle.model.wheel import WheelReport

TAKES_COMMAND = True
# For a report the log is read twice, so a pipe is held in memory up to this size.
MAX_PIPE_BYTES = 64 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE|-|TEXT", nargs="*", help="a log, '-' for standard input, or the error")
    parser.add_argument(
        "--machine", metavar="FILE|NAME|this", help="where it happened: machine.json, a profile, or this"
    )
    parser.add_argument("--plan", metavar="FILE", help="the plan that was carried out (plan.json)")
    parser.add_argument("--torch", metavar="PATH", nargs="?", const="", help="look at the torch that is installed")
    parser.add_argument("--save-report", metavar="FILE", help="save a copy without names, paths and secrets")
    parser.add_argument("--watch", metavar="FILE", help="wait for a failure in a log that is still being written")
    parser.add_argument(
        "--fix", action="store_true", help="with a command: fix what can be fixed, run it again, undo what was not it"
    )
    add_yes(parser)
    parser.add_argument("--list", action="store_true", help="all diagnoses")
    parser.add_argument("--rule", metavar="ID", help="the page of one diagnosis")
    parser.add_argument(
        "--try", dest="trial", metavar="RULE", help="why this diagnosis (or a TOML file's rules) won or lost on the log"
    )


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.render.diagnosis import view_pages

    if args.list:
        return Answer(api.explain_list())
    if args.rule:
        return Answer(api.explain_rule(args.rule), view=view_pages)
    if getattr(args, "command", None) is not None:
        return _run_command(args, session)
    if args.fix:
        raise BadInput(
            "--fix runs the command again to see whether it helped", remedy="rekindle explain --fix -- COMMAND"
        )
    if args.watch:
        diagnosis = api.explain_watch(Path(args.watch), machine=_machine(args.machine), plan=_plan(args.plan))
        return Answer(diagnosis, good=_has_cause(diagnosis))
    if not args.source and (sys.stdin is None or sys.stdin.isatty()):
        raise BadInput("name a log, '-' or the text of the error", remedy="rekindle explain build.log")
    source = _source(args.source or ["-"], twice=bool(args.save_report))
    if args.trial:
        trials = api.explain_try(args.trial, source)
        is_first = any(trial.outcome == "won" for trial in trials.trials)
        return Answer(trials, good=is_first)
    diagnosis = api.explain(
        source, machine=_machine(args.machine), plan=_plan(args.plan), wheel=_wheel(args.torch, session)
    )
    if args.save_report and isinstance(source, (Path, str, bytes)):
        api.explain_report(source, diagnosis, Path(args.save_report))
        session.progress.note(f"saved {args.save_report}")
    return Answer(diagnosis, good=_has_cause(diagnosis))


def _has_cause(diagnosis: Diagnosis) -> bool:
    """Words quoted where no cause is known are a help, not an answer."""
    return bool(diagnosis.matches) and diagnosis.unexplained is None


def _run_command(args: argparse.Namespace, session: Session) -> Answer:
    """Its output passes through; with ``--json`` to standard error, where it does not disturb the document."""
    from rekindle import api
    from rekindle.render.diagnosis import view_nothing

    if args.source or args.watch:
        raise BadInput("name a log or a command, not both", remedy="rekindle explain -- pip install torch")
    if not args.command:
        raise BadInput("name the command to run after '--'", remedy="rekindle explain -- pip install torch")
    out = sys.stderr.buffer if session.json else sys.stdout.buffer
    if args.fix:
        from rekindle.journey.fix import fix_command
        from rekindle.render.diagnosis import view_fixes

        report = fix_command(
            args.command, out=out, err=sys.stderr.buffer, confirm=session.confirm, say=session.progress.note
        )
        return Answer(document=report, view=view_fixes, exit_code=report.exit_code)
    diagnosis = api.explain_command(
        args.command,
        out=out,
        err=sys.stderr.buffer,
        machine=_machine(args.machine),
        plan=_plan(args.plan),
        wheel=_wheel(args.torch, session),
    )
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


def _machine(where: str | None) -> Machine | None:
    from rekindle import api

    if where is None:
        return None
    return api.this_machine() if where == "this" else api.find_machine(where)[0]


def _plan(where: str | None) -> Plan | None:
    from rekindle.model.document import load
    from rekindle.model.plan import Plan

    return load(Path(where), Plan) if where else None


def _wheel(target: str | None, session: Session) -> WheelReport | None:
    from rekindle import api

    return None if target is None else api.installed_torch(target or None, progress=session.progress)
