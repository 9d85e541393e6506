"""What this machine is, what is missing, and what fixes it."""

import argparse
from pathlib import Path

from rekindle.cli.verb import Answer, Session, add_workspace, place_for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", metavar="FILE", help="write the machine to FILE (for plan --machine FILE)")
    kept = "keep every answer of this machine in DIR, redacted, for --replay"
    parser.add_argument("--capture", metavar="DIR", type=Path, help=kept)
    parser.add_argument("--replay", metavar="DIR", type=Path, help="examine a captured machine instead of this one")
    code = "what exit code 0 means (default: use)"
    parser.add_argument("--for", dest="purpose", choices=("use", "build"), default="use", help=code)
    planned = "also what this planned build asks of the machine, with one line to fix it"
    parser.add_argument("--plan", metavar="FILE", type=Path, help=planned)
    trial = "import each installed torch and use the card (may take a minute)"
    parser.add_argument("--try-torch", action="store_true", help=trial)
    parser.add_argument("--details", action="store_true", help="everything: paths, all checks, what was not learnt")
    add_workspace(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    save = place_for(args.save, "machine.json") if args.save else None
    workspace = str(args.workspace) if args.workspace else None
    examination = session.call(api.doctor, args, save=save, workspace=workspace)
    for what, place in (("the machine", save), ("a capture of this machine", args.capture)):
        if place is not None:
            session.progress.note(f"wrote {what} to {place}")
    ready = examination.ready.build if args.purpose == "build" else examination.ready.use
    if session.json or args.details or session.verbosity:
        return Answer(examination, good=ready)
    from rekindle.render.machine import show_glance

    plan = None if args.plan else api.plan(examination.machine)
    return Answer(examination, good=ready, view=lambda document, screen: show_glance(document, plan, screen))
