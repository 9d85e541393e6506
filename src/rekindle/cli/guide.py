"""Pages that start from what you have: an old card, a new one, an AMD card, a Jetson, an old CPU, no card."""

import argparse

from rekindle.cli.verb import Answer, Session, options_of

add_arguments = options_of("guide")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.render.words import show_guide

    return Answer(api.guide(args.name), view=show_guide)
