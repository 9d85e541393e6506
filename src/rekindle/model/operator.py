"""An operator as users call it that may crash on a CPU, and what came of trying it; inspect and verify say it alike."""

from __future__ import annotations

from typing import Literal

from rekindle.model.document import Document, Part

# suspected: read, not tried. refuses: an error that a program can catch. not-tried: no known call reaches the code.
Outcome = Literal["suspected", "crashes", "runs", "refuses", "no-answer", "not-tried"]


class OperatorTrial(Part, frozen=True, kw_only=True):
    """``functions`` use the instruction sets ``isa`` without asking; ``operator`` is None where nobody knows a call
    that leads to them. ``avoid`` says how to go round it."""

    operator: str | None
    functions: tuple[str, ...] = ()
    isa: tuple[str, ...] = ()
    outcome: Outcome = "suspected"
    detail: str = ""
    avoid: str | None = None


class KeptTrials(Document, frozen=True, kw_only=True):
    """What ``verify`` found about one build on one kind of CPU, kept so that ``inspect`` says the same."""

    subject: str
    date: str
    verdict: str
    # How a check died of an instruction the CPU lacks, where one did: then it does not run there.
    crash: str | None = None
    trials: tuple[OperatorTrial, ...] = ()
