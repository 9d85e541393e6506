"""What compat answers: a verdict with its reasons, and what a wheel has for a card. ``yes``: it works. ``partly``: it
starts, and something named does not work. ``no``: it does not work. ``unknown`` is never to be read as yes or no."""

from typing import Literal, NamedTuple

Kind = Literal["yes", "partly", "no", "unknown"]
CoverageKind = Literal["native", "jit", "override", "none", "unknown"]
Runs = Literal["yes", "no", "unknown"]
Name = Literal["cpu", "cuda", "rocm", "xpu"]


class CompatAnswer(NamedTuple):
    """One verdict: a stable ``code`` and a ``text`` for people say why, ``source`` where that is from; ``want`` says in
    short what would do instead (a driver, a glibc), where that is known."""

    kind: Kind
    code: str = ""
    text: str = ""
    source: str | None = None
    want: str | None = None


class Coverage(NamedTuple):
    """``native``: machine code for it. ``jit``: only PTX, which the driver must compile. ``override``: code of a
    neighbour that runs under an environment variable. ``unknown``: it depends on what is not known here. ``code`` is a
    stable word for the reason, ``target`` the code that would be loaded."""

    kind: CoverageKind
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
