"""The answer to "does this wheel run on this card?"."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["native", "jit", "override", "none", "unknown"]


class Coverage(NamedTuple):
    """``native``: machine code for it. ``jit``: only PTX, which the driver may or may not compile. ``override``:
    code of a neighbour that runs under an environment variable. ``unknown``: the card's architecture is not known.
    """

    kind: Kind
    text: str = ""
    source: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    risky: bool = False
