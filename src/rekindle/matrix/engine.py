"""The port behind which cells are carried out: submit, wait for endings, cancel, close.

An engine knows nothing of cells beyond a command to run. The truth about a cell is in its directory, so an engine
that dies loses nothing but time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rekindle.model.matrix import Worker


@dataclass(frozen=True, kw_only=True)
class Task:
    """One try at a cell: a command, where, and for how long it may be silent and idle."""

    cell: str
    attempt: int
    argv: tuple[str, ...]
    worker: str
    env: dict[str, str] = field(default_factory=dict)
    log: str = ""
    hang_seconds: float = 1800.0
    minutes: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A task that ended. ``why`` is "" for an ordinary end, else "lost", "hang" or "cancelled"."""

    cell: str
    code: int
    seconds: float
    why: str = ""


class Engine(Protocol):
    """What carries cells out: this machine, a cluster, or a simulation."""

    name: str

    def workers(self) -> Sequence[Worker]:
        """Who is there now."""

    def submit(self, task: Task) -> None:
        """Start a task; returns at once."""

    def wait(self, seconds: float) -> list[Ending]:
        """Endings, at the latest after ``seconds``."""

    def cancel(self, cell: str) -> None:
        """Stop a task and everything it started; its ending still comes."""

    def close(self) -> None:
        """Stop everything that still runs."""
