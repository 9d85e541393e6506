from rekindle import api
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """A fat wheel that brings its CUDA or ROCm libraries along, so that it runs with nothing but the driver."""
    archs = [arch for arch in (session.args.archs or "").replace(";", ",").split(",") if arch]
    return Answer(session.call(api.bundle, session.args.wheel, archs=archs))
