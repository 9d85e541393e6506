"""The shape of every answer of this room: a kind, and the reasons for it with their sources.

``yes``: it works. ``partly``: it starts, and something named does not work. ``no``: it does not work.
``unknown``: nobody told us, or nobody knows; never to be read as yes or no.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rekindle.model.plan import Reason

Kind = Literal["yes", "partly", "no", "unknown"]


class Answer(NamedTuple):
    """``want`` says in short what would do instead (a driver, a glibc), where that is known."""

    kind: Kind
    reasons: tuple[Reason, ...] = ()
    want: str | None = None

    @property
    def code(self) -> str:
        """The stable code of the first reason."""
        return self.reasons[0].code if self.reasons else ""

    @property
    def text(self) -> str:
        """The first reason, for people."""
        return self.reasons[0].text if self.reasons else ""

    @property
    def source(self) -> str | None:
        """Where the first reason is from."""
        return self.reasons[0].source if self.reasons else None


def answer(kind: Kind, code: str, text: str, source: str | None = None, want: str | None = None) -> Answer:
    """An answer with one reason."""
    return Answer(kind, (Reason(code=code, text=text, source=source),), want)
