"""NVIDIA code on NVIDIA cards.

Machine code for X.y runs on cards of the same X with an equal or higher minor number; ``a`` code only on exactly
that chip, ``f`` code on its family. Tegra chips need code of their own, until the toolkit that the facts name
(``sm_alone``); numbers that mean one chip (``sm_same``) share code with each other and nobody else. PTX can be
compiled by the driver for any later card, if the driver is as new as the toolkit that wrote it.
"""

from __future__ import annotations

import functools

from rekindle.facts import Facts
from rekindle.model.arch import Sm, ptx_runs_on, sass_runs_on
from rekindle.model.version import at_least


@functools.lru_cache(maxsize=4)
def _alone(facts: Facts) -> dict[tuple[int, int], str | None]:
    return {(row.sm.major, row.sm.minor): row.lifted for row in facts.cuda.sm_alone}


@functools.lru_cache(maxsize=4)
def _same(facts: Facts) -> tuple[frozenset[tuple[int, int]], ...]:
    return tuple(frozenset((sm.major, sm.minor) for sm in row.sm) for row in facts.cuda.sm_same)


@functools.lru_cache(maxsize=16384)
def sass_runs(code: Sm, card: Sm, cuda: str | None, facts: Facts) -> bool | None:
    """Machine code ``code``, made by toolkit ``cuda``, on ``card``; None where the toolkit decides and is not known."""
    here, there = (code.major, code.minor), (card.major, card.minor)
    for group in _same(facts):
        if here in group or there in group:
            return here in group and there in group
    alone = _alone(facts)
    if here == there or (here not in alone and there not in alone):
        return sass_runs_on(code, card)
    lifted = alone.get(there)
    if here in alone or lifted is None or not sass_runs_on(code, card):
        return False
    return None if cuda is None else at_least(cuda, lifted)


def ptx_runs(code: Sm, card: Sm) -> bool:
    """Can a driver that is new enough compile this PTX for the card?"""
    return ptx_runs_on(code, card)
