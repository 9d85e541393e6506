"""A fat wheel that brings its CUDA or ROCm libraries along, so that it runs with nothing but the driver."""

from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    from rekindle import api

    args = session.args
    archs = [arch for arch in (args.archs or "").replace(";", ",").split(",") if arch]
    return Answer(session.call(api.bundle, args.wheel, archs=archs))
