"""Repeat a build from its provenance statement: identical, identical after a named rule, or the first difference."""

import argparse

from rekindle.cli.verb import Answer, Session, add_workspace, after_a_yes, path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "statement", type=path, metavar="FILE", help="the .intoto.json (or .intoto.dsse.json) beside a wheel"
    )
    parser.add_argument("--source", type=path, metavar="DIR", help="the source tree, at the commit the statement names")
    parser.add_argument("--wheel", type=path, metavar="FILE", help="the original (default: beside the statement)")
    parser.add_argument("--python", metavar="EXE", help="the interpreter to build for (default: this one)")
    parser.add_argument("--trust", action="store_true", help="build what a stranger's statement says without asking")
    add_workspace(parser)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    done = after_a_yes(
        session,
        "This build was not made here. Repeat it?",
        lambda trust: session.call(api.rebuild, args, args.statement, trust=trust or args.trust),
    )
    return Answer(done, good=done.verdict != "different")
