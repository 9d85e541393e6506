"""More information never makes a plan worse: a fact that is true of the plan already keeps or improves it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from planning import FACTS, plan

from rekindle.facts.gpus import known_archs
from rekindle.model.arch import Gfx, Sm
from rekindle.model.plan import Plan
from rekindle.model.version import key

ORDER = ("install", "graft", "build", "none")
CARDS = tuple(
    sorted(str(arch) for arch in known_archs(FACTS) if isinstance(arch, Sm | Gfx) and not getattr(arch, "suffix", ""))
)


@cache
def usual(card: str, system: str) -> Plan:
    return plan(card, os=system)


def rank(made: Plan) -> tuple[int, tuple[int, ...]]:
    """Better is larger: a wheel before a graft before a build, then the newer torch."""
    return -ORDER.index(made.answer), key(made.torch or "0")


def true_facts(made: Plan) -> list[dict[str, Any]]:
    """What may be said of the machine or the wish without changing anything about either."""
    facts: list[dict[str, Any]] = [{"glibc": "2.35"}] if made.os and made.os.system == "linux" else []
    facts += [{"python": made.python}] if made.python else []
    facts += [{"cuda": made.cuda}] if made.cuda and made.answer != "graft" else []
    facts += [{"rocm": made.rocm}] if made.rocm else []
    facts += [{"compiler": made.build.compiler}] if made.build and made.build.compiler else []
    return facts


@pytest.mark.parametrize("system", ["linux", "windows"])
@pytest.mark.parametrize("card", CARDS)
def test_a_true_fact_keeps_or_improves(card: str, system: str) -> None:
    before = usual(card, system)
    for fact in true_facts(before):
        after = plan(card, os=system, **fact)
        assert rank(after) >= rank(before), (fact, before.torch, after.torch)


def test_a_rocm_that_is_named_finds_the_torch_it_is_paired_with() -> None:
    assert plan("RX 580", rocm="6.4").torch == plan("RX 580").torch == "2.9.1"


def test_the_asked_build_comes_before_an_old_wheel() -> None:
    made = plan("Tesla K20m", driver="450", python="3.8", torch="1.12.1")
    assert (made.answer, made.torch, made.python, made.as_asked) == ("build", "1.12.1", "3.8", True)
