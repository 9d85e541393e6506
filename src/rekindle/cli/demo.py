from rekindle import api
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """The whole way on spark, a miniature that is built the way PyTorch is built.

    Probes this machine, plans, unpacks, patches, configures, builds, inspects the wheel, installs it into a fresh
    environment, proves it there and writes a report. Takes under a minute; a second run keeps what is there.
    """
    journey = session.call(api.demo)
    return Answer(journey, good=journey.arrived)
