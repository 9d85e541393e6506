from rekindle import api
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """Pages that start from what you have: an old card, a new one, an AMD card, a Jetson, an old CPU, no card."""
    from rekindle.render.words import show_guide

    return Answer(api.guide(session.args.name), view=show_guide)
