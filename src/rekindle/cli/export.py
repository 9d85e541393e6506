"""The plan as a .bat, .sh, Dockerfile or GitHub workflow, for people who do not run rekindle there."""

from __future__ import annotations

import argparse

from rekindle.cli.plan import add_arguments as add_plan_arguments
from rekindle.cli.plan import machine_and_wish
from rekindle.cli.verb import Answer, Session

EXAMPLES = """examples:
  rekindle export bat --gpu "Tesla K40c" --os windows --build --out .
  rekindle export dockerfile --machine xeon-e5v2-rtx3060 --build > Dockerfile
  rekindle plan --gpu gfx1031 --json > plan.json;  rekindle export github --plan plan.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("format", choices=("sh", "bat", "dockerfile", "github"), help="what to write")
    parser.add_argument("--plan", metavar="FILE", help="a plan made with 'rekindle plan --json' (- reads stdin)")
    parser.add_argument("--out", metavar="PATH", help="a file or a directory (default: print it)")
    parser.add_argument("--image", help="the container image to build in")
    add_plan_arguments(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    import sys
    from pathlib import Path

    from rekindle import api
    from rekindle.model.document import MAX_DOCUMENT_BYTES, decode, load
    from rekindle.model.plan import Plan
    from rekindle.render.export import render_exported

    if args.plan is None:
        plan = api.plan(*machine_and_wish(args), wheelhouses=args.wheelhouse)
    elif args.plan == "-":
        plan = decode(sys.stdin.buffer.read(MAX_DOCUMENT_BYTES), Plan, origin="stdin")
    else:
        plan = load(Path(args.plan), Plan)
    out = Path(args.out) if args.out else None
    if out is not None and args.out.endswith(("/", "\\")):
        out.mkdir(parents=True, exist_ok=True)
    exported = api.export(plan, args.format, system=args.os, out=out, image=args.image)
    return Answer(document=exported, view=render_exported)
