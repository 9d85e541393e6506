from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """What Rekindle keeps on this machine: workspaces, environments, trees, caches, wheels, with sizes and ages."""
    from rekindle import api

    return Answer(api.holdings())
