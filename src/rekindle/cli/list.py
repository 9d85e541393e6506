"""What Rekindle keeps on this machine: workspaces, environments, trees, caches, wheels, with sizes and ages."""

import argparse

from rekindle.cli.verb import Answer, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    return Answer(api.holdings())
