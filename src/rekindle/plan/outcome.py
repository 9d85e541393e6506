"""All that was judged for a question, before it is put into words."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from rekindle.model.machine import Gpu
from rekindle.model.plan import Reason
from rekindle.plan.candidate import Assessed
from rekindle.plan.cost import preference
from rekindle.plan.obstacles import Obstacle
from rekindle.plan.question import Question


@dataclass(frozen=True)
class Alone:
    """The best way for some of the cards, where the others are left out; ``driver`` is what they ask for."""

    gpus: tuple[Gpu, ...]
    best: Assessed
    driver: str | None = None


@dataclass(frozen=True)
class Near:
    """What would work if one thing were different; ``why`` names it."""

    why: str
    best: Assessed


@dataclass
class Outcome:
    """``best`` is None where nothing is feasible; then ``obstacle`` may say what stands in front of everything.

    ``unserved`` are cards the plan leaves out, ``whole`` what would serve them all, ``alone`` what each group of cards
    could have by itself, and ``apart`` says why no one driver serves all cards.
    """

    question: Question
    wheels: list[Assessed] = field(default_factory=list)
    builds: list[Assessed] = field(default_factory=list)
    unserved: tuple[Gpu, ...] = ()
    whole: Alone | None = None
    alone: list[Alone] = field(default_factory=list)
    obstacle: Obstacle | None = None
    apart: Reason | None = None
    nearest: list[Near] = field(default_factory=list)

    @functools.cached_property
    def feasible(self) -> list[Assessed]:
        """Best first. Read only when all is judged."""
        both = [assessed for assessed in (*self.wheels, *self.builds) if assessed.feasible]
        return sorted(both, key=lambda assessed: preference(assessed, self.question))

    @property
    def best(self) -> Assessed | None:
        return next(iter(self.feasible), None)
