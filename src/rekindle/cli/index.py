"""A wheelhouse that pip and uv read, and the page that finds the torch for a card."""

from __future__ import annotations

import argparse

from rekindle.cli.verb import Answer, Session
from rekindle.errors import NotYet


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, session: Session) -> Answer:
    raise NotYet("'rekindle index' does not exist yet in this version")
