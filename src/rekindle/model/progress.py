"""How a long step tells what it is doing, without knowing who listens.

Stages take a ``Progress``; ``render`` has the one that draws, tests and libraries use ``Silent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rekindle.model.build_view import BuildView


class Progress(Protocol):
    """Every call is cheap; the listener decides what is shown and how often."""

    def stage(self, name: str, detail: str = "") -> None:
        """A new part of the work begins."""

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        """So much of the current part is done; ``total`` is None where nobody knows."""

    def note(self, text: str) -> None:
        """A sentence worth keeping on the screen."""


class Panelled(Protocol):
    """A listener that can also show a running build with all its compilers. One that cannot gets ``step``."""

    def panel(self, view: BuildView) -> None:
        """The build as it is now."""


def show_build(progress: Progress, view: BuildView) -> None:
    """On a panel where the listener has one, else as a step."""
    panel = getattr(progress, "panel", None)
    if panel is not None:
        panel(view)
    else:
        progress.step(view.done, view.total, view.line)


class Silent:
    """Nobody listens."""

    def stage(self, name: str, detail: str = "") -> None:
        """Nothing is said of a stage."""

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        """Nothing is said of a step."""

    def note(self, text: str) -> None:
        """Nothing is said."""
