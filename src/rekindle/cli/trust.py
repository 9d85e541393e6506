"""How every verb asks before a document from elsewhere decides what runs here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from rekindle.cli.verb import Session
from rekindle.errors import Untrusted

Result = TypeVar("Result")


def after_a_yes(session: Session, question: str, call: Callable[[bool], Result]) -> Result:
    """``call(False)``; refused as untrusted, what it would do is shown, and a yes leads to ``call(True)``."""
    from rekindle.render.build import render_foreign
    from rekindle.render.screen import Screen

    try:
        return call(False)
    except Untrusted as error:
        session.close()
        render_foreign(error.account, Screen(sys.stderr, color=session.color, verbosity=session.verbosity))
        if not session.confirm(question):
            raise
    return call(True)
