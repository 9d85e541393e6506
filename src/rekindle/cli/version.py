"""Which Rekindle this is; with -v also its Python and the system."""

import argparse

from rekindle.cli.verb import Answer, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None of its own."""


def run(args: argparse.Namespace, session: Session) -> Answer:
    import platform

    from rekindle import __version__
    from rekindle.model.words import Versions

    document = Versions(
        rekindle=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
    )
    return Answer(document)
