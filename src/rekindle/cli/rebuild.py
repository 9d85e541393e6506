"""Repeat a build from its provenance statement: identical, identical after a named rule, or the first difference."""

import argparse

from rekindle.cli.verb import Answer, Session, after_a_yes, options_of

add_arguments = options_of("rebuild")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api

    done = after_a_yes(
        session,
        "This build was not made here. Repeat it?",
        lambda trust: session.call(api.rebuild, args, args.statement, trust=trust or args.trust),
    )
    return Answer(done, good=done.verdict != "different")
