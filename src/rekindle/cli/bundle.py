"""A fat wheel that brings its CUDA or ROCm libraries along, so that it runs with nothing but the driver."""

import argparse

from rekindle.cli.verb import Answer, Session, options_of

add_arguments = options_of("bundle")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    archs = [arch for arch in (args.archs or "").replace(";", ",").split(",") if arch]
    return Answer(session.call(api.bundle, args, args.wheel, archs=archs))
