from rekindle import api
from rekindle.cli.verb import Answer, Session, after_a_yes


def run(session: Session) -> Answer:
    """Repeat a build from its provenance statement: identical, identical after a named rule, or the first
    difference."""
    args = session.args
    done = after_a_yes(
        session,
        "This build was not made here. Repeat it?",
        lambda trust: session.call(api.rebuild, args.statement, trust=trust or args.trust),
    )
    return Answer(done, good=done.verdict != "different")
