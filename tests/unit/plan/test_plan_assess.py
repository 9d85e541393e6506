"""What a candidate costs, and which of equals comes first."""

from __future__ import annotations

import pytest
from planning import FACTS, ask, wheel

from rekindle.plan.assess import assess, assessed_builds, preference, releases_behind, toolkit_order

NEWEST = FACTS.releases[0]


def test_a_release_whose_sources_cannot_name_the_card_is_not_tried() -> None:
    assert list(assessed_builds(ask("sm_120"), ("2.5.1",))) == []
    assert any(assessed_builds(ask("sm_120"), ("2.5.1",), every=True)), "unless all is wanted, to say why not"


def test_how_far_behind() -> None:
    assert releases_behind(NEWEST, ask("sm_86")) == 0
    assert releases_behind("2.13.0", ask("sm_86")) == FACTS.minors["2.15"] - FACTS.minors["2.13"] == 2
    old = ask("sm_86", python="3.7")
    assert releases_behind("2.6.0", old) == 0, "newer than anyone with that Python could have"
    assert releases_behind("1.12.1", old) == 1


@pytest.mark.parametrize(
    ("version", "order"), [("12.4", (-12, -4)), ("12", (-12, 0)), ("11.8.0", (-11, -8)), (None, (0, 0))]
)
def test_newest_toolkit_first(version: str | None, order: tuple[int, int]) -> None:
    assert toolkit_order(version) == order


def test_among_equals_the_wheel_of_the_index_everybody_uses() -> None:
    question = ask("sm_86", torch="2.6.0")
    ranks = {name: preference(assess(wheel("2.6.0", name), question), question) for name in ("cu124", "cu118", "cu126")}
    assert min(ranks, key=lambda name: ranks[name]) == "cu124"
    late = ask("sm_86", torch="2.6.0", driver="530.30.02")
    ranks = {name: preference(assess(wheel("2.6.0", name), late), late) for name in ("cu124", "cu118")}
    assert min(ranks, key=lambda name: ranks[name]) == "cu118", "whose own driver is there"
