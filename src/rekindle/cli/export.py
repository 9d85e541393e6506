"""The plan as a .bat, .sh, Dockerfile or GitHub workflow."""

from __future__ import annotations

import argparse

from rekindle.cli.verb import Answer, Session
from rekindle.errors import NotYet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, session: Session) -> Answer:
    raise NotYet("'rekindle export' does not exist yet in this version")
