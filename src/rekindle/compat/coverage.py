"""The answer to "does this GPU code run on this card?"."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["native", "jit", "override", "none", "unknown"]
Runs = Literal["yes", "no", "unknown"]


class Coverage(NamedTuple):
    """``native``: machine code for it. ``jit``: only PTX, which the driver must compile. ``override``: code of a
    neighbour that runs under an environment variable. ``unknown``: it depends on what is not known here.

    ``code`` is a stable word for the reason, ``target`` the code that would be loaded.
    """

    kind: Kind
    text: str = ""
    source: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    risky: bool = False
    code: str = ""
    target: str | None = None

    @property
    def runs(self) -> Runs:
        """Does it run at all, in whatever way?"""
        return "no" if self.kind == "none" else "unknown" if self.kind == "unknown" else "yes"
