import platform

from rekindle import __version__
from rekindle.cli.verb import Answer, Session


def run(session: Session) -> Answer:
    """Which Rekindle this is; with -v also its Python and the system."""
    from rekindle.model.words import Versions

    system = f"{platform.system()} {platform.machine()}"
    return Answer(Versions(rekindle=__version__, python=platform.python_version(), system=system))
