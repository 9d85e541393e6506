"""Drivers: floor and ceiling, for toolkits and cards, on both systems; just inside and just outside."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.compat.driver import (
    CommonDriver,
    branch,
    card_drivers,
    common_driver,
    distinct_drivers,
    driver_runs,
    driver_side,
    intel_driver,
    is_board,
    newest_cuda,
    toolkit_driver,
    wanted_driver,
)
from rekindle.facts import Facts, load_facts
from rekindle.model.arch import Sm, Xe, parse_sm
from rekindle.model.machine import Os
from rekindle.model.version import key, reaches

FACTS = load_facts()


def said(driver: str | None, cuda: str | None, *cards: str, side: str = "linux", ptx: bool = False) -> tuple[str, str]:
    found = driver_runs(driver, cuda, tuple(map(parse_sm, cards)), side, FACTS, ptx=ptx)
    return found.kind, found.code


@pytest.mark.parametrize(
    ("cuda", "side", "own", "floor"),
    [
        ("10.2", "linux", "440.33", "440.33"),
        ("10.2", "windows", "441.22", "441.22"),
        ("11.0", "linux", "450.51.05", "450.51.05"),
        ("11.8", "linux", "520.61.05", "450.80.02"),
        ("11.8", "windows", "520.06", "452.39"),
        ("12.4", "linux", "550.54.14", "525.60.13"),
        ("12.4", "windows", "551.61", "528.33"),
        ("13.0", "linux", "580.65.06", "580"),
        ("13.1", "windows", "590", "580"),
        ("99.9", "linux", None, None),
    ],
)
def test_what_a_toolkit_asks_of_the_driver(cuda: str, side: str, own: str | None, floor: str | None) -> None:
    found = toolkit_driver(cuda, side, FACTS)
    assert (found.own, found.floor) == (own, floor)
    assert (found.source is None) == (floor is None)


@pytest.mark.parametrize(
    ("card", "toolkit", "last", "below"),
    [
        ("sm_21", None, 390, 396),
        ("sm_30", None, 470, 495),
        ("sm_37", None, 470, 495),
        ("sm_50", None, 580, 590),
        ("sm_61", "8.0", 580, 590),
        ("sm_70", "9.0", 580, 590),
        ("sm_75", "10.0", None, None),
        ("sm_86", "11.1", None, None),
        ("sm_90", "11.8", None, None),
        ("sm_120", "12.8", None, None),
    ],
)
def test_what_a_card_asks_of_the_driver(card: str, toolkit: str | None, last: int | None, below: int | None) -> None:
    found = card_drivers(parse_sm(card), "linux", FACTS)
    assert (found.toolkit, found.last, found.below) == (toolkit, last, below)
    fixes = {390: "no more fixes", 470: "no more fixes", 580: "until June 2028"}
    assert fixes[last] in (found.fixes or "") if last else found.fixes is None
    assert found.first == (toolkit_driver(toolkit, "linux", FACTS).own if toolkit else None)
    ends = [row for row in FACTS.cuda.driver_end if row.first <= parse_sm(card) <= row.last]
    said_by = ends[0].source[0] if ends else toolkit_driver(toolkit or "", "linux", FACTS).source
    assert found.source == said_by


def with_toolkit(name: str, **changes: Any) -> Facts:
    """The tables, but for one toolkit's row."""
    kits = {**FACTS.cuda.toolkit, name: msgspec.structs.replace(FACTS.cuda.toolkit[name], **changes)}

    class Made(Facts):
        cuda = msgspec.structs.replace(FACTS.cuda, toolkit=kits)

    return Made()


def test_who_says_so_is_who_told_the_driver_or_the_toolkit() -> None:
    kit = FACTS.cuda.toolkit["12.4"]
    assert toolkit_driver("12.4", "linux", FACTS).source == kit.driver_source != kit.source[0]
    assert toolkit_driver("12.4", "linux", with_toolkit("12.4", driver_source=None)).source == kit.source[0]


def test_a_toolkit_that_no_driver_of_the_card_runs_at_all_is_not_called_a_matter_of_ptx() -> None:
    """590 begins where the drivers of Pascal end; 580 still runs machine code of the 13.x that came with 590."""
    for floor, task in (("580", "compile its PTX"), ("590", "run CUDA 13.1"), ("589.99", "compile its PTX")):
        facts = with_toolkit("13.1", driver_linux="590.44.01", minor_driver_linux=floor)
        found = driver_runs(None, "13.1", (Sm(6, 1),), "linux", facts, ptx=True)
        assert found.code == "driver-branch-ended" and f"is needed to {task}, and R580" in found.text, floor


def test_a_toolkit_whose_driver_nobody_knows_changes_nothing() -> None:
    untold = dict.fromkeys(("driver_linux", "driver_windows", "minor_driver_linux", "minor_driver_windows"))
    facts = with_toolkit("12.3", **untold)
    assert toolkit_driver("12.3", "linux", facts)[:2] == (None, None)
    assert set(distinct_drivers(Sm(8, 6), "linux", facts)) < set(distinct_drivers(Sm(8, 6), "linux", FACTS))
    own = FACTS.cuda.toolkit["12.3"].driver_linux or ""
    assert newest_cuda(own, "linux", FACTS) == "12.3" and newest_cuda(own, "linux", facts) == "12.2"
    assert driver_runs(own, "12.3", (Sm(8, 6),), "linux", facts).code == "driver-not-known"


@pytest.mark.parametrize(
    ("arch", "windows", "linux"),
    [("bmg", "32.0.101.8622", "the kernel's i915"), ("pvc", None, "Intel's data center"), ("gen9", None, None)],
)
def test_what_intels_cards_ask_of_the_driver(arch: str, windows: str | None, linux: str | None) -> None:
    row = FACTS.xe_generation(Xe(arch))
    assert row is not None
    assert intel_driver(row, "windows") == windows
    found = intel_driver(row, "linux")
    assert found is None if linux is None else found is not None and found.startswith(linux)


@pytest.mark.parametrize(
    ("driver", "cuda", "card", "side", "kind", "code"),
    [
        # the floor of the toolkit
        ("525.60.12", "12.4", "sm_86", "linux", "no", "driver-too-old"),
        ("525.60.13", "12.4", "sm_86", "linux", "yes", "driver-minor-compatible"),
        ("550.54.13", "12.4", "sm_86", "linux", "yes", "driver-minor-compatible"),
        ("550.54.14", "12.4", "sm_86", "linux", "yes", "driver"),
        ("528.32", "12.4", "sm_86", "windows", "no", "driver-too-old"),
        ("528.33", "12.4", "sm_86", "windows", "yes", "driver-minor-compatible"),
        ("551.61", "12.4", "sm_86", "windows", "yes", "driver"),
        ("440.32", "10.2", "sm_61", "linux", "no", "driver-too-old"),
        ("440.33", "10.2", "sm_61", "linux", "yes", "driver"),
        ("579.99", "13.0", "sm_86", "linux", "no", "driver-too-old"),
        ("580", "13.0", "sm_86", "linux", "yes", "driver"),
        # the ceiling of the card
        ("470.256.02", "11.4", "sm_35", "linux", "yes", "driver"),
        ("474.44", "11.8", "sm_35", "windows", "yes", "driver-minor-compatible"),
        ("494.99", "11.4", "sm_35", "windows", "yes", "driver"),
        ("495.29", "11.4", "sm_35", "linux", "no", "driver-too-new"),
        ("535.54", "11.4", "sm_37", "linux", "no", "driver-too-new"),
        ("580.65.06", "12.6", "sm_52", "linux", "yes", "driver"),
        ("589.99", "12.6", "sm_70", "windows", "yes", "driver"),
        ("590.44.01", "12.6", "sm_52", "linux", "no", "driver-too-new"),
        ("590", "12.6", "sm_61", "linux", "no", "driver-too-new"),
        ("590.44.01", "12.6", "sm_75", "linux", "yes", "driver"),
        # the ceiling of the card, below the floor of the toolkit
        ("470.256.02", "12.0", "sm_35", "linux", "no", "driver-branch-ended"),
        ("580.65.06", "13.0", "sm_61", "linux", "yes", "driver"),
        # the floor of the card
        ("455.22", "11.0", "sm_86", "linux", "yes", "driver"),
        ("454.99", "11.0", "sm_86", "linux", "no", "driver-older-than-card"),
        ("519.99", "11.8", "sm_89", "linux", "no", "driver-older-than-card"),
        ("520.56", "11.7", "sm_89", "linux", "yes", "driver"),
        ("569.99", "12.4", "sm_120", "linux", "no", "driver-older-than-card"),
        ("570.26", "12.4", "sm_120", "linux", "yes", "driver"),
        # what is not known
        (None, "12.4", "sm_86", "linux", "unknown", "driver-not-told"),
        ("L4T 36", "12.4", "sm_86", "linux", "unknown", "driver-not-told"),
        (None, "12.0", "sm_35", "linux", "no", "driver-branch-ended"),
        ("550.54", "99.9", "sm_86", "linux", "unknown", "driver-not-known"),
    ],
)
def test_inside_and_outside(driver: str | None, cuda: str, card: str, side: str, kind: str, code: str) -> None:
    assert said(driver, cuda, card, side=side) == (kind, code)


def test_ptx_needs_the_driver_of_its_toolkit() -> None:
    assert said("550.54.13", "12.4", "sm_120", ptx=True)[1] == "driver-older-than-card"
    assert said("525.60.13", "12.4", "sm_90", ptx=True) == ("no", "driver-too-old-for-ptx")
    assert said("550.54.14", "12.4", "sm_90", ptx=True) == ("yes", "driver")
    # Toolkit and card came with the same branch, so the card is the reason to give.
    assert said("519.99", "11.8", "sm_89", ptx=True) == ("no", "driver-older-than-card")
    assert said("520.56.06", "11.8", "sm_89", ptx=True) == ("no", "driver-too-old-for-ptx")
    assert said("470.256.02", "11.4", "sm_37", ptx=True) == ("yes", "driver")
    assert said("470.256.02", "11.8", "sm_37", ptx=True) == ("no", "driver-branch-ended")
    assert said(None, "11.8", "sm_37", ptx=True) == ("no", "driver-branch-ended")
    found = driver_runs(None, "11.8", (Sm(3, 7),), "linux", FACTS, ptx=True)
    assert "compile its PTX" in found.text
    assert "run CUDA 12.0" in driver_runs(None, "12.0", (Sm(3, 7),), "linux", FACTS, ptx=True).text


def test_one_number_where_toolkit_and_card_ask_for_different_ones() -> None:
    found = driver_runs("560", "13.2", (Sm(12, 0),), "windows", FACTS)
    assert (found.kind, found.code, found.want) == ("no", "driver-too-old", "580 or newer")
    assert "580" in found.text and "570" not in found.text


def test_cards_alone() -> None:
    assert said("470.256", None, "sm_35") == ("yes", "driver")
    assert said("495.29", None, "sm_35") == ("no", "driver-too-new")
    assert said("454", None, "sm_86") == ("no", "driver-older-than-card")
    assert said(None, None, "sm_86") == ("unknown", "driver-not-told")
    assert said(None, None, "sm_32") == ("unknown", "driver-not-told")
    assert said(None, None) == ("unknown", "driver-not-known")


@pytest.mark.parametrize(
    ("cards", "exists"),
    [
        (("sm_35", "sm_90"), False),
        (("sm_37", "sm_89"), False),
        (("sm_61", "sm_89"), True),
        (("sm_35", "sm_86"), True),
        (("sm_61", "sm_120"), True),
        (("sm_86", "sm_120"), True),
        (("sm_35", "sm_61"), True),
        ((), True),
    ],
)
def test_cards_that_no_one_driver_serves(cards: tuple[str, ...], exists: bool) -> None:
    assert common_driver([parse_sm(card) for card in cards], "linux", FACTS).exists is exists
    if not exists:
        assert said("470.256", "11.4", *cards) == ("no", "driver-none-for-all")
        assert said(None, "11.4", *cards) == ("no", "driver-none-for-all")


def test_the_strictest_card_counts() -> None:
    found = common_driver([Sm(6, 1), Sm(3, 5), Sm(8, 6), Sm(7, 5)], "linux", FACTS)
    assert (found.first, found.newest, found.last, found.below, found.oldest) == (
        "455.23", Sm(8, 6), 470, 495, Sm(3, 5),
    )  # fmt: skip
    assert common_driver([Sm(3, 5), Sm(6, 1)], "linux", FACTS).oldest == Sm(3, 5)


def test_of_equal_cards_the_first_is_named() -> None:
    found = common_driver([Sm(8, 9), Sm(9, 0), Sm(3, 5), Sm(3, 7)], "linux", FACTS)
    assert (found.newest, found.oldest) == (Sm(8, 9), Sm(3, 5))


def test_a_branch_ends_where_the_next_begins() -> None:
    assert CommonDriver("494.99", 470, 495).exists and not CommonDriver("495.29", 470, 495).exists
    assert said(None, "13.1", "sm_61", ptx=True) == ("no", "driver-branch-ended")
    assert said(None, "13.0", "sm_61", ptx=True) == ("unknown", "driver-not-told")


def test_the_texts_say_what_is_meant() -> None:
    ended = driver_runs(None, "12.0", (Sm(3, 5),), "linux", FACTS, names=("K40c",))
    assert ended.text.endswith("R470 is the last driver branch for K40c")
    assert driver_runs(None, "12.0", (Sm(3, 5),), "linux", FACTS).text.endswith("for sm_35")
    assert driver_runs(None, "12.4", (Sm(8, 6),), "linux", FACTS, names=("it",)).text.startswith("CUDA 12.4 needs")
    assert driver_runs(None, None, (Sm(8, 6),), "linux", FACTS, names=("the card",)).text.startswith("the card needs")
    assert driver_runs(None, None, (Sm(8, 6),), "linux", FACTS).text.startswith("sm_86 needs")
    assert "minor-version" in driver_runs("525.60.13", "12.4", (Sm(8, 6),), "linux", FACTS).text
    assert "minor-version" not in driver_runs("550.54.14", "12.4", (Sm(8, 6),), "linux", FACTS).text
    kit = FACTS.cuda.toolkit["12.4"]
    assert driver_runs("550.54.14", "12.4", (Sm(8, 6),), "linux", FACTS).source == kit.driver_source


def test_two_cards_are_called_by_name() -> None:
    found = driver_runs(None, "11.8", (Sm(3, 5), Sm(9, 0)), "linux", FACTS, names=("Tesla K40c", "H200"))
    assert "Tesla K40c (R470" in found.text and "H200 (needs 520.61.05" in found.text
    new = driver_runs("535.54", "11.8", (Sm(3, 5),), "linux", FACTS, names=("Tesla K40c",))
    assert new.text.startswith("R470 is the last driver branch for Tesla K40c") and new.want == "470.x"


@pytest.mark.parametrize(
    ("cuda", "cards", "side", "want"),
    [
        ("11.8", ("sm_35",), "linux", "450.80.02 to 470.x"),
        ("11.4", ("sm_35",), "windows", "452.39 to R470 (below 495)"),
        ("12.4", ("sm_86",), "linux", "525.60.13 or newer"),
        ("12.4", ("sm_86",), "windows", "528.33 or newer"),
        ("12.4", ("sm_120",), "linux", "570.26 or newer"),
        ("12.6", ("sm_61",), "linux", "525.60.13 to 580.x"),
        ("13.0", ("sm_61",), "linux", "580.x"),
        (None, ("sm_35",), "linux", "470.x or older"),
        (None, ("sm_86",), "linux", "455.23 or newer"),
        (None, (), "linux", None),
    ],
)
def test_the_driver_to_ask_for(cuda: str | None, cards: tuple[str, ...], side: str, want: str | None) -> None:
    assert wanted_driver(cuda, [parse_sm(card) for card in cards], side, FACTS) == want  # type: ignore[arg-type]


def test_ptx_asks_for_more() -> None:
    assert wanted_driver("12.4", [Sm(9, 0)], "linux", FACTS, ptx=True) == "550.54.14 or newer"
    assert wanted_driver("11.4", [Sm(3, 5)], "linux", FACTS, ptx=True) == "470.x"


@pytest.mark.parametrize(
    ("driver", "floor", "is_enough"),
    [
        ("470", "470.42.01", True),
        ("469", "470.42.01", False),
        ("471", "470.42.01", True),
        ("470.42.00", "470.42.01", False),
        ("470.42.01", "470.42.01", True),
        ("470.42", "470.42.01", False),
    ],
)
def test_a_bare_branch_means_its_newest(driver: str, floor: str, is_enough: bool) -> None:
    assert reaches(driver, floor) is is_enough
    assert branch("470.256.02") == 470


@pytest.mark.parametrize(
    ("os", "side"),
    [
        (Os(system="linux"), "linux"),
        (Os(system="linux", wsl=False), "linux"),
        (Os(system="linux", wsl=True), "windows"),
        (Os(system="windows"), "windows"),
    ],
)
def test_under_wsl_the_driver_is_that_of_windows(os: Os, side: str) -> None:
    assert driver_side(os) == side


@pytest.mark.parametrize(
    ("system", "arch", "cards", "board"),
    [
        ("linux", "aarch64", ("sm_87",), True),
        ("linux", None, ("sm_87",), True),
        ("linux", "aarch64", ("sm_87", "sm_86"), False),
        ("linux", "aarch64", (), False),
        ("linux", "x86_64", ("sm_87",), False),
        ("windows", "aarch64", ("sm_87",), False),
        ("linux", "aarch64", ("sm_90",), False),
        ("linux", "aarch64", ("sm_110",), True),
        ("linux", "aarch64", ("sm_53",), True),
    ],
)
def test_a_board_brings_its_own_driver(system: str, arch: str | None, cards: tuple[str, ...], board: bool) -> None:
    os = Os(system=system, arch=arch)  # type: ignore[arg-type]
    assert is_board(os, [parse_sm(card) for card in cards], FACTS) is board


sms = st.sampled_from(sorted({sm for row in FACTS.cuda.toolkit.values() for sm in row.sass if not sm.suffix}))
drivers = st.integers(340, 620).map(lambda number: f"{number}.{number % 90:02d}")


@given(st.lists(sms, min_size=1, max_size=3), sms, drivers, st.sampled_from(FACTS.toolkits))
def test_another_card_never_removes_a_refusal(cards: list[Sm], more: Sm, driver: str, cuda: str) -> None:
    if driver_runs(driver, cuda, tuple(cards), "linux", FACTS).kind == "no":
        assert driver_runs(driver, cuda, (*cards, more), "linux", FACTS).kind == "no"


@given(sms, drivers, drivers, st.sampled_from(FACTS.toolkits), st.booleans())
def test_a_newer_driver_below_the_ceiling_never_takes_a_solution_away(
    sm: Sm, one: str, other: str, cuda: str, ptx: bool
) -> None:
    older, newer = sorted((one, other), key=branch)
    ceiling = card_drivers(sm, "linux", FACTS).below
    if driver_runs(older, cuda, (sm,), "linux", FACTS, ptx=ptx).kind == "yes" and (
        ceiling is None or branch(newer) < ceiling
    ):
        assert driver_runs(newer, cuda, (sm,), "linux", FACTS, ptx=ptx).kind == "yes"


@given(st.lists(sms, max_size=3), st.one_of(st.none(), drivers), st.sampled_from(FACTS.toolkits), st.booleans())
def test_every_answer_has_a_reason(cards: list[Sm], driver: str | None, cuda: str, ptx: bool) -> None:
    for side in ("linux", "windows"):
        found = driver_runs(driver, cuda, tuple(cards), side, FACTS, ptx=ptx)
        assert found.code and found.text
        assert found.kind != "no" or found.source


@pytest.mark.parametrize("ptx", [False, True])
@pytest.mark.parametrize("card", ["sm_35", "sm_61", "sm_86", "sm_120"])
@pytest.mark.parametrize("side", ["linux", "windows"])
def test_between_two_distinct_drivers_nothing_changes(card: str, side: str, ptx: bool) -> None:
    points = distinct_drivers(parse_sm(card), side, FACTS)
    assert points[0] == "1.0" and all("." in point for point in points), "a bare branch would mean its newest"
    for low, high in zip(points, (*points[1:], "9999.0"), strict=True):
        major = branch(low)
        inside = [f"{number}.{part}" for number in (major, major + 1, branch(high) - 1) for part in (1, 60, 99)]
        for driver in inside:
            if reaches(driver, low) and not reaches(driver, high):
                for kit in FACTS.toolkits:
                    same = said(low, kit, card, side=side, ptx=ptx)
                    assert said(driver, kit, card, side=side, ptx=ptx) == same, (driver, low, kit)


@pytest.mark.parametrize("side", ["linux", "windows"])
def test_the_drivers_that_change_something_for_a_card(side: str) -> None:
    """Its first, those with which a toolkit's machine code or PTX begins to run, and the end of its branch."""
    needs = [toolkit_driver(kit, side, FACTS) for kit in FACTS.toolkits]
    for card in (Sm(3, 5), Sm(8, 6), Sm(12, 0)):
        span = card_drivers(card, side, FACTS)
        points = distinct_drivers(card, side, FACTS)
        assert list(points) == sorted(points, key=key) and len(set(points)) == len(points)
        assert not span.below or f"{span.below}.0" in points
        assert not span.first or f"{branch(span.first)}.0" in points
        for driver in {name for need in needs for name in (need.own, need.floor) if name and "." in name}:
            if branch(span.first or "1") < branch(driver) < (span.below or 9999):
                assert driver in points, (card, driver)
