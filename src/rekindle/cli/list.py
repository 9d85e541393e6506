from rekindle import api
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """What Rekindle keeps on this machine: workspaces, environments, trees, caches, wheels, with sizes and ages."""
    return Answer(api.holdings())
