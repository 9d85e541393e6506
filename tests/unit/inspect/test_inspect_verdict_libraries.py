"""Packages judged library by library: which are weighed as a whole, which pick, and the words of the sum."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from rekindle.compat.answer import Coverage
from rekindle.inspect.verdict_gpu import (
    MOST_NAMED,
    LibraryFit,
    _best_build,
    _list_names,
    by_library,
    judge_libraries,
    picks,
)
from rekindle.model.wheel import ArchSet, AxisVerdict, LibraryGpu, WheelGpu, WheelReport

VENDOR = "x/lib/libcufft.so.11"


def sets(*rows: tuple[str, int]) -> tuple[ArchSet, ...]:
    return tuple(ArchSet(archs=tuple(archs.split()), count=count) for archs, count in rows)


def lib(file: str, *rows: tuple[str, int]) -> LibraryGpu:
    return LibraryGpu(file=file, sets=sets(*rows))


def package(*libraries: LibraryGpu, **more: object) -> WheelReport:
    return WheelReport(name="kernels", gpu=WheelGpu(libraries=libraries), **more)  # type: ignore[arg-type]


ANSWERS = {
    "good": Coverage("native"),
    "late": Coverage("jit"),
    "bad": Coverage("none"),
    "maybe": Coverage("unknown", "depends"),
    "set": Coverage("override", "runs so", env=(("HSA", "1"), ("B", "2"))),
}


def judged(*libraries: LibraryGpu) -> AxisVerdict:
    """The first target of a set says how it answers."""

    def runs(archs: Sequence[str]) -> Coverage:
        return ANSWERS[archs[0].split("_")[-1]]

    return judge_libraries(package(*libraries), "the card", runs, lambda archs: archs[0] != "other")


def test_which_wheels_are_judged_by_library() -> None:
    own, vendor = lib("x/mine.so", ("sm_80", 1)), lib(VENDOR, ("sm_80", 1))
    assert by_library(package(own))
    assert not by_library(WheelReport(name="torch", gpu=WheelGpu(libraries=(vendor,))))
    assert by_library(WheelReport(gpu=WheelGpu(libraries=(vendor,))))
    assert not by_library(WheelReport(gpu=WheelGpu(libraries=(vendor, own))))
    assert by_library(WheelReport(name="kernels", gpu=WheelGpu(libraries=(own,), declared=("sm_80",)))) is False


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((("a", 9), ("b c", 1)), True),
        ((("a", 89), ("b c", 11)), False),
        ((("a", 5), ("b", 5)), True),
        ((("a", 10),), False),
        ((("a b", 5), ("c d", 5)), False),
    ],
)
def test_a_library_of_single_targets_picks(rows: tuple[tuple[str, int], ...], expected: bool) -> None:
    assert picks(lib("x/mine.so", *rows)) is expected
    assert picks(lib(VENDOR, *rows))
    assert picks(lib("libcufft.so.11/mine.so", *rows)) is expected


def test_every_container_of_a_plain_library_must_run() -> None:
    assert judged(lib("a/p.so", ("good x", 3))).code == "gpu-native"
    assert judged(lib("a/p.so", ("late x", 3))).code == "gpu-jit"
    assert judged(lib("a/p.so", ("late x", 3), ("good x", 1))).code == "gpu-native"
    none = judged(lib("a/p.so", ("bad x", 3)))
    assert (none.axis, none.runs, none.code, none.text) == (
        "gpu", "no", "gpu-no-kernels", "no image for the card in p.so",
    )  # fmt: skip
    some = judged(lib("a/p.so", ("bad x", 3), ("good x", 2)))
    assert (some.runs, some.code) == ("partly", "gpu-some-kernels")
    assert some.text == "the card: 0 of 1 libraries run in full; in part: p.so (2 of 5)"
    assert "a/*.so" in judged(lib("a/*.so", ("bad x", 3))).text


def test_what_belongs_to_another_maker_is_not_weighed() -> None:
    found = judged(lib("p.so", ("good x", 1), ("other", 7)), lib("q.so", ("other", 7)))
    assert (found.runs, found.code) == ("yes", "gpu-native")


@pytest.mark.parametrize(("native", "runs"), [(5, "yes"), (4, "partly"), (6, "yes"), (1, "partly")])
def test_a_fair_share_of_what_the_best_card_has(native: int, runs: str) -> None:
    # PTX is used by far more, and does not count as a card; nor does code that one chip or family alone can use.
    rows = (("bad sm_80", 10), ("bad compute_70", 90), ("bad sm_90a", 90), ("bad sm_100f", 90))
    found = judged(lib(VENDOR, ("good sm_70", native), *rows))
    assert found.runs == runs
    assert found.code == ("gpu-picks" if runs == "yes" else "gpu-some-kernels")
    assert f"{native} of {native + 280}" in found.text


@pytest.mark.parametrize(("answer", "few", "enough"), [("good", "no", "partly"), ("late", "no", "yes")])
def test_odds_and_ends_are_no_support(answer: str, few: str, enough: str) -> None:
    """Of cuSPARSELt 2 of 351 containers have PTX that a V100 could compile: it is not for that card."""
    assert judged(lib(VENDOR, (f"{answer} compute_52", 2), ("bad sm_89", 21))).runs == few
    assert judged(lib(VENDOR, (f"{answer} compute_52", 2), ("bad sm_89", 20))).runs == enough


def test_where_all_code_is_for_single_chips_the_best_of_them_counts() -> None:
    assert judged(lib(VENDOR, ("good sm_90a", 4), ("bad sm_100a", 10))).runs == "partly"
    assert judged(lib(VENDOR, ("good sm_90a", 5), ("bad sm_100a", 10))).runs == "yes"


def test_gfx_targets_count_for_the_best_card() -> None:
    assert judged(lib(VENDOR, ("good", 4), ("bad gfx90a", 10), ("bad", 10))).runs == "partly"


def test_a_library_that_picks_with_late_code_alone() -> None:
    late = judged(lib(VENDOR, ("late", 1), ("bad sm_80", 9)))
    assert (late.runs, late.code) == ("yes", "gpu-jit")
    both = judged(lib(VENDOR, ("late", 1), ("good sm_80", 9)))
    assert both.code == "gpu-picks"
    assert both.text == "code for the card in libcufft.so.11: 10 of 10 images; the library picks by card"
    assert judged(lib(VENDOR, ("bad sm_80", 9))).runs == "no"


def test_what_is_not_told() -> None:
    found = judged(lib("a/p.so", ("maybe x", 1), ("bad x", 1)))
    assert (found.runs, found.code, found.text, found.remedy) == ("unknown", "gpu-not-told", "p.so depends", None)
    override = judged(lib("a/p.so", ("set x", 1)))
    assert (override.runs, override.code, override.text) == ("partly", "gpu-override", "p.so runs so")
    assert override.remedy == "set HSA=1 B=2 before starting the program"
    both = judged(lib("a/p.so", ("set x", 1)), lib("a/q.so", ("maybe x", 1)))
    assert (both.runs, both.code) == ("unknown", "gpu-not-told")
    # What runs for certain comes before what may.
    assert judged(lib("a/p.so", ("maybe x", 1), ("good x", 1))).runs == "partly"
    mixed = judged(lib("g.so", ("good x", 1)), lib("m.so", ("maybe x", 1)), lib("b.so", ("bad x", 1)))
    assert mixed.text == "the card: 1 of 3 libraries run in full; nothing for it in b.so; not told for m.so"


def test_builds_for_toolkits_are_one_choice() -> None:
    found = judged(lib("k_cuda118.so", ("bad x", 1)), lib("k_cuda130.so", ("good x", 1)))
    assert found.runs == "yes"
    assert found.text == "code for the card in every library (in k_cuda130.so; the package picks by toolkit version)"
    late = judged(lib("k_cu118.so", ("bad x", 1)), lib("k_cu130.so", ("late x", 1)))
    assert late.code == "gpu-jit"
    assert late.text.endswith("(in k_cu130.so; the package picks by toolkit version)")
    # Other digits are other libraries.
    assert judged(lib("k118.so", ("bad x", 1)), lib("k130.so", ("good x", 1))).runs == "partly"
    assert "toolkit" not in judged(lib("k.so", ("good x", 1))).text


def test_the_best_of_several_builds() -> None:
    words = ("no", "unknown", "partly", "yes")
    for low, high in itertools.pairwise(words):
        rows = [LibraryFit("a", low, 1, 2, False), LibraryFit("b", high, 1, 2, False)]  # type: ignore[arg-type]
        assert (_best_build(rows).name, _best_build(rows[::-1]).word) == ("b", high)
    same = [LibraryFit(str(n), "yes", 1, 1, False) for n in range(MOST_NAMED)]
    assert _best_build(same).name == "0, 1, 2, 3"
    assert _best_build([*same, LibraryFit("x", "yes", 1, 1, False)]).name == "0, 1, 2, 3 …"


def test_only_so_many_are_named() -> None:
    rows = [LibraryFit(str(n), "no", 0, 1, False) for n in range(MOST_NAMED)]
    assert _list_names(rows) == "0, 1, 2, 3"
    assert _list_names([*rows, rows[0]]) == "0, 1, 2, 3"
    assert _list_names([*rows, LibraryFit("x", "no", 0, 1, False)]) == "0, 1, 2, 3 and 1 more"
    assert _list_names([*rows, LibraryFit("x", "no", 0, 1, False), LibraryFit("y", "no", 0, 1, False)]).endswith(
        "and 2 more"
    )
    five = [lib(f"libcufft{n}.so", ("good sm_80", 1)) for n in range(5)]
    assert "libcufft3.so" in judged(*five).text
    assert "libcufft4.so" not in judged(*five).text
    parts = [lib(f"p{n}.so", ("good x", 1), ("bad x", 1)) for n in range(5)]
    assert "p3.so (1 of 2)" in judged(*parts).text
    assert "p4.so" not in judged(*parts).text
