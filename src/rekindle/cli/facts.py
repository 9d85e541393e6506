"""The tables behind every answer, with their sources; measured again on request."""

import argparse
from pathlib import Path

from rekindle.cli.verb import Answer, Session, add_repeatable


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|sources|check|format")
    show = actions.add_parser("show", help="a table or its rows")
    show.add_argument("table", nargs="?", help="cuda, cudnn, torch, wheels, rocm, nvidia, amd, cpu, …")
    show.add_argument("row", nargs="?", help="part of a row's name")
    actions.add_parser("sources", help="where the facts come from")
    check = actions.add_parser("check", help="measure again from published wheels and compilers; reports drift")
    add_repeatable(check, "--torch", "VERSION", "read this release's wheels (repeatable)")
    add_repeatable(check, "--cuda", "VERSION", "ask this toolkit's ptxas (repeatable)")
    add_repeatable(
        check, "--beside", "NAME", "read this companion's newest wheel, or that of NAME==VERSION (repeatable)"
    )
    digest = "only ask this container image's registry for its digest; all: those that exports pin (repeatable)"
    add_repeatable(check, "--image", "NAME", digest, dest="images")
    form = actions.add_parser("format", help="write facts files in their canonical form")
    form.add_argument("files", nargs="*", type=Path, metavar="FILE", help="default: every table of this installation")
    form.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is not in that form")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    if args.action == "show":
        return Answer(api.facts_show(args.table, args.row))
    if args.action == "sources":
        return Answer(api.facts_sources())
    if args.action == "format":
        done = api.facts_format(args.files, write=not args.check)
        return Answer(done, good=not (args.check and done.changed))
    checked = session.call(api.facts_check, args)
    # Nothing measured is no yes.
    return Answer(checked, good=checked.agrees and not (checked.drift or checked.new))
