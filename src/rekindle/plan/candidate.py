"""A candidate is one way to get torch; assessed, it carries every "no" that was found on the way."""

from __future__ import annotations

from dataclasses import dataclass, field

from rekindle.compat import Coverage, Name
from rekindle.model.facts import Flavour, Hazard
from rekindle.model.machine import Gpu
from rekindle.model.plan import Answer, Change, Refusal
from rekindle.plan.evidence import Found


@dataclass(frozen=True, slots=True)
class Candidate:
    """``flavour`` for a published wheel; for a build the toolchain is chosen in the candidate itself."""

    answer: Answer
    torch: str
    backend: Name
    flavour: Flavour | None = None
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    compiler: str | None = None
    wheel: str | None = None

    @property
    def name(self) -> str:
        """How a person calls it."""
        if self.flavour is not None:
            return f"torch {self.torch}+{self.flavour.name}"
        kit = f" with CUDA {self.cuda}" if self.cuda else f" with ROCm {self.rocm}" if self.rocm else ""
        return f"torch {self.torch} from source{kit}"


@dataclass(slots=True)
class Assessed:
    candidate: Candidate
    refusals: list[Refusal] = field(default_factory=list)
    covered: list[tuple[Gpu, Coverage]] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    evidence: Found | None = None  # of a CUDA build: who compiled it before
    feasible: bool = False  # nothing is in the way that no change could fix
    cost: float = 0.0

    def settle(self) -> None:
        """Work out what follows from the refusals; they do not change any more."""
        seen: dict[str, Change] = {}
        for refusal in self.refusals:
            if refusal.change is not None:
                seen.setdefault(refusal.change.what, refusal.change)
        self.changes = list(seen.values())
        self.feasible = all(refusal.change is not None or not refusal.certain for refusal in self.refusals)

    @property
    def doubts(self) -> list[Refusal]:
        return [refusal for refusal in self.refusals if not refusal.certain]
