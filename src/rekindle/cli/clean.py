import re
import sys
from collections.abc import Sequence

from rekindle import api
from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput


def run(session: Session) -> Answer:
    """Remove what Rekindle keeps: shows what would go and asks.

    Without words it takes build trees, caches and logs: what can be made again. Nothing that Rekindle did not make is
    ever touched, and nothing that another run is working in.
    """
    from rekindle.model.holdings import Holding
    from rekindle.model.spoken import spoken_bytes
    from rekindle.render.holdings import holding_rows
    from rekindle.render.screen import Screen

    def confirm(items: Sequence[Holding]) -> bool:
        if session.can_ask():
            Screen(sys.stderr, color=session.color).rows(holding_rows(list(items)))
        return session.confirm(f"Remove these ({spoken_bytes(sum(item.bytes for item in items))})?")

    age = session.args.older_than
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([hdw]?)", age.strip().lower())
    if match is None:
        raise BadInput(f"--older-than {age}: no age", remedy="write for example 12h, 30d or 8w")
    days = float(match[1]) * {"h": 1 / 24, "d": 1.0, "w": 7.0, "": 1.0}[match[2]]
    cleaning = session.call(api.clean, session.args.what, older_than_days=days, confirm=confirm)
    return Answer(cleaning, good=not cleaning.kept)
