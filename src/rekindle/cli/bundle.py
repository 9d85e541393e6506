"""A fat wheel that brings its CUDA or ROCm libraries along, so that it runs with nothing but the driver."""

import argparse

from rekindle.cli.verb import Answer, Session, add_repeatable, path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("wheel", type=path, metavar="WHEEL")
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="where the fat wheel goes (default: beside the given one)"
    )
    add_repeatable(parser, "--library-path", "DIR", "look here for libraries first; repeatable")
    parser.add_argument("--archs", default="", help="keep device code for these only: 3.5,8.6 or sm_35,sm_86")
    add_repeatable(parser, "--exclude", "NAME", "leave it out (a pattern)")
    parser.add_argument("--allow-missing", action="store_true", help="go on if a library is nowhere to be found")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go in")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    archs = [arch for arch in args.archs.replace(";", ",").split(",") if arch]
    return Answer(session.call(api.bundle, args, args.wheel, archs=archs))
