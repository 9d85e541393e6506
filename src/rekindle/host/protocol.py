"""What a stage may ask of the machine: ``Host``. ``live`` asks the real one, ``recorded`` replays a capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Completed:
    """What a short external command said. ``code`` is None where it never started or was stopped."""

    argv: tuple[str, ...]
    code: int | None
    out: str = ""
    err: str = ""
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0


class Host(Protocol):
    """One machine. Nothing here raises for what a machine may simply not have: that is None or empty."""

    @property
    def system(self) -> str:
        """linux, windows or macos."""

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables."""

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        """Run a short command to its end; ``env`` is added to the environment."""

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        """The first ``limit`` bytes of a file, or None."""

    def glob(self, pattern: str) -> tuple[str, ...]:
        """Paths that match, sorted."""

    def which(self, name: str) -> str | None:
        """Where a program lies on PATH."""
