"""Notice that another package replaced your torch, see which one, and get the line that restores it.

What was meant stands in the environment (rekindle up leaves it there, --record writes it) or in a file of
constraints. The culprit is read from pip's own records; nothing is changed.
"""

import argparse

from rekindle.cli.verb import Answer, Session, path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--python", metavar="EXE", help="the interpreter to look into (default: the one we run in)")
    parser.add_argument("--keep", type=path, metavar="FILE", help="constraints that say what was meant")
    parser.add_argument("--record", action="store_true", help="write down the torch that is there now")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    report = session.call(api.guard, args)
    return Answer(report, good=report.good)
