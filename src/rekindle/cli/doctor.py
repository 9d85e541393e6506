"""What this machine is, what is missing, and what fixes it."""

from __future__ import annotations

import argparse
from pathlib import Path

from rekindle.cli.verb import Answer, Session, add_workspace
from rekindle.errors import Exit

EXAMPLES = """examples:
  rekindle doctor                     what this machine is, and whether it is ready
  rekindle doctor --save machine.json keep it, for 'rekindle plan --machine machine.json' elsewhere
  rekindle doctor --plan plan.json --for build   is everything here that this build takes?
  rekindle doctor -v                  also what was asked and what it said
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the machine to FILE (for plan --machine FILE)")
    parser.add_argument(
        "--capture", metavar="DIR", type=Path, help="keep every answer of this machine in DIR, redacted, for --replay"
    )
    parser.add_argument("--replay", metavar="DIR", type=Path, help="examine a captured machine instead of this one")
    parser.add_argument(
        "--for", dest="purpose", choices=("use", "build"), default="use", help="what exit code 0 means (default: use)"
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        type=Path,
        help="also what this planned build asks of the machine, with one line to fix it",
    )
    parser.add_argument(
        "--try-torch",
        action="store_true",
        help="import each installed torch and use the card (may take a minute)",
    )
    add_workspace(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.render.machine import show_examination

    examination = api.doctor(
        workspace=args.workspace,
        try_torch=args.try_torch,
        save=args.save,
        capture=args.capture,
        replay=args.replay,
        plan=args.plan,
        progress=session.progress,
    )
    ready = examination.ready.build if args.purpose == "build" else examination.ready.use
    return Answer(document=examination, view=show_examination, exit_code=Exit.YES if ready else Exit.NO)
