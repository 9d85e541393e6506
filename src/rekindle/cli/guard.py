from rekindle import api
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """Notice that another package replaced your torch, see which one, and get the line that restores it.

    What was meant stands in the environment (rekindle up leaves it there, --record writes it) or in a file of
    constraints. The culprit is read from pip's own records; nothing is changed.
    """
    report = session.call(api.guard)
    return Answer(report, good=report.good)
