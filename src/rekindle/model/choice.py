"""The two answers for programs that bring torch along: which one for a machine, and what became of it.

Fields are only ever added; what stands here keeps its name and its meaning (``schema`` would change otherwise).
"""

from __future__ import annotations

from typing import Literal

from rekindle.model.document import Document
from rekindle.model.plan import Answer, Request

Kind = Literal["cuda", "rocm", "cpu"]


class TorchChoice(Document, frozen=True, kw_only=True):
    """Which torch. ``answer``: install a published wheel, build one, or none that would run.

    ``pip`` holds what follows ``pip install``, one list per call; ``env`` is what must be set whenever torch is used.
    ``why`` and ``beware`` are sentences for people; ``minutes`` and ``disk_gib`` are estimates, None where unknown.
    """

    answer: Answer
    torch: str | None = None
    variant: str | None = None
    backend: Kind = "cpu"
    python: str | None = None
    packages: tuple[Request, ...] = ()
    pip: tuple[tuple[str, ...], ...] = ()
    env: dict[str, str] = {}
    disk_gib: float | None = None
    minutes: tuple[float, float] | None = None
    why: tuple[str, ...] = ()
    beware: tuple[str, ...] = ()


class TorchReady(Document, frozen=True, kw_only=True):
    """What became of it. ``ready`` is True only where the proof held; ``python`` runs it, ``constraints`` keeps it."""

    ready: bool
    verdict: str
    torch: str | None = None
    python: str | None = None
    activate: str | None = None
    constraints: str | None = None
    report: str | None = None
