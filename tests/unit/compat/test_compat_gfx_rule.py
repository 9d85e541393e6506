"""AMD's rule: own chip, generic targets by their table, feature switches, and SPIR-V, which nobody can tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rekindle.compat.images import amd_runs
from rekindle.facts import Facts, load_facts
from rekindle.model.arch import Gfx, parse_gfx, parse_gfx_code

FACTS = load_facts()


@pytest.mark.parametrize(
    ("codes", "card", "runs"),
    [
        ("gfx1030", "gfx1030", True),
        ("gfx1030", "gfx1031", False),
        ("gfx10-3-generic", "gfx1031", True),
        ("gfx10-3-generic", "gfx1010", False),
        ("gfx9-generic", "gfx906", True),
        ("gfx9-generic", "gfx90a", False),  # gfx9-4 and gfx908/90a are no part of gfx9-generic
        ("gfx9-4-generic", "gfx942", True),
        ("gfx9-4-generic", "gfx90a", False),
        ("gfx12-generic", "gfx1250", False),
        ("gfx11-generic gfx1030", "gfx1151", True),
        ("gfx13-generic", "gfx1310", None),  # of the card's generation, but not in our table
        ("gfx13-generic", "gfx1100", False),
        ("amdgcnspirv", "gfx1100", None),
        ("amdgcnspirv gfx1100", "gfx1100", True),
        ("gfx90a", "gfx90a:sramecc+:xnack+", True),
        ("gfx90a:xnack+", "gfx90a:sramecc+:xnack-", False),
        ("gfx90a:xnack+ gfx90a:xnack-", "gfx90a", True),
        ("gfx90a:xnack-", "gfx90a", True),  # the usual setting
        ("gfx90a:xnack+", "gfx90a", None),  # HSA_XNACK=1 switches it on
        ("gfx906:xnack+", "gfx906", False),  # that card cannot
        ("gfx906:xnack-", "gfx906", True),
        ("gfx906:sramecc+", "gfx906", None),  # MI50 has it, a Radeon VII not
        ("gfx906:sramecc+:xnack-", "gfx906:sramecc+", True),
        ("gfx906:sramecc-:xnack-", "gfx906:sramecc+:xnack-", False),
        ("gfx1010:xnack-", "gfx1010", None),
        ("gfx900:xnack- gfx900:sramecc+", "gfx900", True),  # the first runs, whatever the second wants
        ("gfx9-generic:xnack-", "gfx906", True),
        ("", "gfx906", False),
    ],
)
def test_rule(codes: str, card: str, runs: bool | None) -> None:
    assert amd_runs(codes.split(), parse_gfx(card), FACTS) is runs


CHIPS = ["gfx900", "gfx906", "gfx90a", "gfx942", "gfx1010", "gfx1100"]
SWITCHES = st.sampled_from(["", ":xnack+", ":xnack-", ":sramecc+", ":sramecc-", ":sramecc+:xnack-", ":sramecc-:xnack+"])
CODES = st.lists(
    st.one_of(
        st.builds(str.__add__, st.sampled_from(CHIPS), SWITCHES),
        st.sampled_from(["gfx9-generic", "gfx9-4-generic:xnack+", "gfx11-generic", "amdgcnspirv"]),
    ),
    max_size=5,
)


@given(codes=CODES, more=CODES, chip=st.sampled_from(CHIPS))
def test_more_code_never_takes_a_card_away(codes: list[str], more: list[str], chip: str) -> None:
    rank = {False: 0, None: 1, True: 2}
    card = parse_gfx(chip)
    assert rank[amd_runs([*codes, *more], card, FACTS)] >= rank[amd_runs(codes, card, FACTS)]


@given(codes=CODES, chip=st.sampled_from(CHIPS), xnack=st.sampled_from("+-"), sramecc=st.sampled_from("+-"))
def test_a_sure_answer_holds_for_every_setting(codes: list[str], chip: str, xnack: str, sramecc: str) -> None:
    """Without usual settings, yes and no are said only if they hold however the switches stand."""
    facts = Facts()
    vars(facts)["rocm"] = replace(FACTS.rocm, switch=())
    unsaid = amd_runs(codes, parse_gfx(chip), facts)
    said = amd_runs(codes, parse_gfx(f"{chip}:sramecc{sramecc}:xnack{xnack}"), facts)
    if unsaid is not None:
        assert said is unsaid


def test_more_switches_than_anybody_has_are_not_tried_out() -> None:
    """Each doubles the ways to try: thirty would be a thousand million."""
    code = ":".join(("gfx90a", *(f"switch{number}+" for number in range(30))))
    assert amd_runs([code], parse_gfx("gfx90a"), FACTS) is None


def test_generic_targets_are_for_code_and_no_card() -> None:
    assert str(parse_gfx_code("gfx9-4-generic:xnack+")) == "gfx9-4-generic:xnack+"
    with pytest.raises(ValueError, match="no AMD architecture"):
        parse_gfx("gfx11-generic")
    with pytest.raises(ValueError, match="no target"):
        parse_gfx_code("gfx-generic")


def test_order() -> None:
    names = [
        "gfx803",
        "gfx90a",
        "gfx942",
        "gfx9-generic",
        "gfx9-4-generic",
        "gfx1030",
        "gfx10-3-generic",
        "amdgcnspirv",
    ]
    assert str(min(map(parse_gfx_code, names))) == "gfx803"
    assert max(map(parse_gfx_code, names)) == Gfx("amdgcnspirv")
    assert sorted([parse_gfx_code("gfx9-generic"), parse_gfx_code("gfx1010"), parse_gfx_code("gfx942")]) == [
        parse_gfx_code(name) for name in ("gfx942", "gfx9-generic", "gfx1010")
    ]


def test_each_generic_target_covers_chips_of_its_own_generation() -> None:
    for name, row in FACTS.rocm.generic.items():
        generation = parse_gfx_code(name).order[0]
        assert row.gfx
        assert {chip.order[0] for chip in row.gfx} == {generation}
