"""What a card goes without, though torch runs on it: torch.compile, fast bfloat16."""

from __future__ import annotations

from rekindle.facts import Facts
from rekindle.model.arch import Sm
from rekindle.model.plan import Reason
from rekindle.model.version import matches


def lost_features(sm: Sm, torch: str, facts: Facts, name: str | None = None) -> tuple[Reason, ...]:
    """Each feature of this release that begins after the card, as a sentence."""
    return tuple(
        Reason(code=row.name, text=row.text.format(card=name or sm, first=row.first), source=row.source[0])
        for row in facts.cuda.sm_feature
        if sm < row.first and (row.torch is None or matches(torch, row.torch))
    )
