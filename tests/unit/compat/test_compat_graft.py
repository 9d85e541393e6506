"""Which wheel can be grafted by which toolkit, and how long it takes."""

from __future__ import annotations

import heapq
import itertools

import pytest

from rekindle.compat.graft import (
    find_recipe,
    find_twin,
    fits_wheel,
    graft_cost,
    graft_hint,
    graft_kits,
    graft_time,
    is_proven,
    planned_time,
    stays_without,
    unit_seconds,
)
from rekindle.compat.resources import jobs_for
from rekindle.facts import load_facts
from rekindle.model.arch import Gfx, parse_sm
from rekindle.model.spoken import spoken_minutes

FACTS = load_facts()
H200, VOLTA, KEPLER = parse_sm("sm_90"), parse_sm("sm_70"), parse_sm("sm_35")


def test_a_toolkit_of_another_major_version_does_not_fit_the_wheel() -> None:
    assert fits_wheel("13.0", "12.6").code == "graft-other-major"
    assert fits_wheel("12.9", "12.6").kind == "yes" and fits_wheel("12.6", "12.6").kind == "yes"
    assert fits_wheel("12.4", "12.6").code == "graft-older-toolkit"


def test_cuda_13_cannot_graft_volta_and_12_can() -> None:
    assert graft_kits("13.0", (VOLTA,), FACTS) == ()
    assert graft_kits("12.6", (VOLTA,), FACTS)[0] == "12.6"
    assert graft_kits("12.6", (VOLTA, parse_sm("sm_120")), FACTS)[0] == "12.8", "the oldest that knows both"


def test_the_oldest_that_knows_the_card_comes_first() -> None:
    assert graft_kits("11.7", (H200,), FACTS) == ("11.8",)
    assert graft_kits("11.7", (KEPLER,), FACTS) == ("11.7", "11.8")


# 1.13.1: 266 s to the last image, and the 88 s of the second call that were not LZ4. 2.12.1: CPU time; what 16 cores
# took depends on the order, below.
@pytest.mark.parametrize(("torch", "minutes", "cores"), [("1.13.1", 354 / 60, 16), ("2.12.1", 148, 1)])
def test_planned_minutes_are_within_a_quarter_of_what_was_measured(torch: str, minutes: float, cores: int) -> None:
    planned = planned_time(torch, (H200,), cores, FACTS)
    assert planned is not None
    assert planned.seconds / 60 == pytest.approx(minutes, rel=0.25)
    low, high = planned.minutes
    assert low <= minutes * 1.25 and high >= minutes


def test_the_longest_units_first_on_every_core() -> None:
    row = graft_cost("2.12.1", FACTS)
    assert row is not None
    times = [5.0, 4.0, 3.0, 3.0, 3.0]
    best = min(
        max(sum(t for t, core in zip(times, cores, strict=True) if core == c) for c in range(2))
        for cores in itertools.product(range(2), repeat=len(times))
    )
    assert best <= graft_time(times, 2, row).seconds - row.other_seconds <= best * 4 / 3
    assert graft_time(times, 1, row).seconds == sum(times) + row.other_seconds
    assert graft_time([], 4, row).seconds == row.other_seconds, "with nothing to compile"


def test_the_order_alone_made_2_12_take_longer_than_planned() -> None:
    """814 s were measured with code of one chip alone started last; longest first, the same units take under ten."""
    row, planned = graft_cost("2.12.1", FACTS), planned_time("2.12.1", (H200,), 16, FACTS)
    assert row is not None and planned is not None and planned.seconds < 600
    last = [seconds for name, seconds in row.seconds.items() if name.endswith(".a")]
    first = [seconds for name, seconds in row.seconds.items() if not name.endswith(".a")]
    ends = [0.0] * 16
    for each in [*sorted(first, reverse=True), *[row.rest_seconds] * (row.units - len(row.seconds)), *last]:
        heapq.heapreplace(ends, ends[0] + each)
    assert max(ends) + row.other_seconds == pytest.approx(814, rel=0.1)


def test_2_6_takes_what_it_took() -> None:
    row = graft_cost("2.6.0", FACTS)
    assert row is not None
    assert graft_time([row.rest_seconds] * 239, 16, row).seconds == pytest.approx(486 - 47, rel=0.1)


def test_no_more_cores_than_the_longest_unit_help() -> None:
    many, more = (planned_time("2.12.1", (H200,), jobs, FACTS) for jobs in (200, 400))
    assert many and more and many.seconds == more.seconds
    assert many.seconds >= 346


def test_code_of_one_chip_alone_costs_its_own() -> None:
    row = graft_cost("2.12.1", FACTS)
    assert row is not None
    assert unit_seconds("RowwiseScaledMM_cu", parse_sm("sm_90a"), row) == 346
    assert unit_seconds("RowwiseScaledMM_cu", H200, row) == 52
    assert unit_seconds("Sleep_cu", H200, row) == unit_seconds(None, H200, row) == row.rest_seconds


def test_the_nearest_release_stands_for_one_that_was_not_measured() -> None:
    for torch, measured in (("2.13.0", ">=2.12,<2.13"), ("2.0.1", ">=1.13,<1.14"), ("1.12.1", ">=1.13,<1.14")):
        row = graft_cost(torch, FACTS)
        assert row is not None and row.torch == measured
        assert not is_proven(torch, H200, FACTS)
    assert is_proven("2.12.1+cu130", H200, FACTS) and not is_proven("2.12.1", VOLTA, FACTS)


def test_memory_limits_the_compilers() -> None:
    row = graft_cost("2.12.1", FACTS)
    assert row is not None
    assert jobs_for(4.5, 16, row) == 4 and jobs_for(0.2, 16, row) == 1 and jobs_for(None, 16, row) == 16


def test_a_recipe_is_found_by_release() -> None:
    assert find_recipe("2.12.1+cu130", FACTS) is not None
    assert find_recipe("0.4.1", FACTS) is None and find_recipe("no version", FACTS) is None


def test_closed_libraries_are_told() -> None:
    told = stays_without("1.13.1", "11.7", "8.5.0.96", H200, FACTS)
    assert any("cuSPARSE inside the wheel" in one and "torch.sparse.mm" in one and "fail" in one for one in told)
    assert any("cuFFT inside the wheel" in one and "torch.fft start late" in one for one in told)
    assert not any("cuDNN" in one for one in told)
    newer = " ".join(stays_without("2.12.1", "12.6", "9.10.2.21", parse_sm("sm_120"), FACTS))
    assert "of CUDA 12.6 are older than sm_120" in newer and "MAGMA" in newer
    old = " ".join(stays_without("2.12.1", "12.6", "9.10.2.21", KEPLER, FACTS))
    assert "cuDNN 9.10.2.21 has no code for sm_35" in old and "newer than sm_35" in old
    assert "cuBLAS" not in " ".join(stays_without("2.12.1", "13.0", "9.20.0.48", parse_sm("sm_110"), FACTS))


def test_companions_have_recipes_of_their_own() -> None:
    recipe = find_recipe("0.27.1+cu130", FACTS, "torchvision")
    assert recipe is not None and recipe.folders == ("torchvision/csrc",)
    assert find_recipe("0.27.1", FACTS) is None, "no torch has that number"
    assert find_recipe("2.12.1", FACTS, "xformers") is None


def test_an_inferred_recipe_is_like_its_neighbour_and_nothing_is_planned_on_it() -> None:
    measured, inferred = find_recipe("2.12.1", FACTS), find_recipe("2.9.1", FACTS)
    assert measured is not None and inferred is not None and inferred.how == "inferred"
    assert inferred.defines == measured.defines and inferred.standard == "c++17" and measured.standard == "c++20"
    assert find_recipe("2.9.1", FACTS, measured=True) is None
    assert find_recipe("2.12.1", FACTS, measured=True) == measured


def test_code_of_one_chip_alone_is_planned_where_a_unit_has_it() -> None:
    row = graft_cost("2.12.1", FACTS)
    assert row is not None
    plain, hopper, two = (
        planned_time("2.12.1", tuple(map(parse_sm, cards)), 4, FACTS)
        for cards in (("sm_86",), ("sm_90",), ("sm_86", "sm_90"))
    )
    assert plain and hopper and two
    assert (plain.units, hopper.units, two.units) == (row.units, row.units + 4, 2 * row.units + 4)
    alone = [seconds for name, seconds in row.seconds.items() if name.endswith(".a")]
    usual = sum(seconds for name, seconds in row.seconds.items() if not name.endswith(".a"))
    usual += row.rest_seconds * (row.units - len(row.seconds) + len(alone))
    assert plain.cpu_seconds == pytest.approx(usual + row.other_seconds)
    assert hopper.cpu_seconds == pytest.approx(usual + sum(alone) + row.rest_seconds + row.other_seconds)


def test_a_time_says_how_it_was_counted() -> None:
    row = graft_cost("2.6.0", FACTS)
    assert row is not None
    found = graft_time([3.0, 5.0], 2, row)
    assert found == (5.0 + row.other_seconds, 8.0 + row.other_seconds, 2, 2)
    assert graft_time([3.0, 5.0], 0, row) == graft_time([3.0, 5.0], 1, row)
    assert graft_time([3.0, 5.0], 0, row).jobs == 1


def test_a_hint_offers_a_graft_with_its_price() -> None:
    hint = graft_hint("2.6.0+cu124", "12.4", H200, 16, FACTS)
    assert hint is not None
    assert hint.startswith("a graft gives torch 2.6.0 code for sm_90 in about ")
    assert hint.endswith(" on 16 cores: rekindle graft torch==2.6.0 --gpu sm_90")
    planned = planned_time("2.6.0", (H200,), 16, FACTS)
    assert planned and spoken_minutes(*planned.minutes) in hint
    assert "on 8 cores" in (graft_hint("2.6.0", "12.4", H200, None, FACTS) or ""), "where nobody says how many"
    assert graft_hint("2.6.0", "12.4.1", H200, 16, FACTS) == graft_hint("2.6.0", "12.4", H200, 16, FACTS)
    assert graft_hint("1.13.1", "11.8.89", H200, 16, FACTS) is not None, "the toolkit 11.8 is not older than that"
    # No code for sm_120 can be made by 12.4, but by a later toolkit of the same major version.
    assert graft_hint("2.6.0", "12.4", parse_sm("sm_120"), 16, FACTS) is not None


@pytest.mark.parametrize(
    ("torch", "cuda", "card"),
    [
        (None, "12.4", H200),
        ("2.6.0", None, H200),
        ("2.6.0", "12.4", None),
        ("2.6.0", "12.4", "sm_90"),
        ("2.6.0", "12.4", Gfx("gfx90a")),
        ("2.9.1", "12.8", H200),  # its recipe is only inferred
        ("0.4.1", "12.4", H200),
        ("2.12.1", "13.0", VOLTA),  # no toolkit of that major version compiles for it
    ],
)
def test_no_graft_is_offered_that_cannot_be_made(torch: str | None, cuda: str | None, card: object) -> None:
    assert graft_hint(torch, cuda, card, 16, FACTS) is None


@pytest.mark.parametrize(
    ("chips", "card", "twin"),
    [
        (("gfx1030",), "gfx1031", "gfx1030"),
        (("gfx900", "gfx1034", "gfx1030"), "gfx1031", "gfx1030"),
        (("gfx1100", "gfx1201"), "gfx1200", "gfx1201"),
        (("gfx1010",), "gfx1012", "gfx1010"),
        (("gfx1012",), "gfx1010", None),
        (("gfx900",), "gfx1031", None),
        (("gfx1030",), "gfx900", None),
        ((), "gfx1031", None),
    ],
)
def test_the_twin_of_a_chip(chips: tuple[str, ...], card: str, twin: str | None) -> None:
    assert find_twin(chips, Gfx(card), FACTS) == twin
