"""What the report says would have been quicker: only what mattered, with figures that follow from the log."""

from __future__ import annotations

import pytest

from rekindle.build.report import idle_tail, lanes, packed_seconds, quicker
from rekindle.formats.ninja import Edge
from rekindle.model.build import BuildResult
from rekindle.model.plan import Plan


def step(start: float, end: float, name: str = "a.cpp.o", run: int = 0) -> Edge:
    return Edge(start=int(start * 1000), end=int(end * 1000), outputs=(f"dir/{name}",), hash=f"{start}{name}", run=run)


def result(**more: object) -> BuildResult:
    values = {"project": "torch", "wheel": "", "wheel_sha256": "", "plan": Plan(answer="build"), "plan_digest": ""}
    return BuildResult(**{**values, "launcher": {"ccache": "hits"}, **more})  # type: ignore[arg-type]


EVEN = [step(at, at + 10, f"f{at}{lane}.cpp.o") for at in (0, 10, 20) for lane in (0, 1)]
LATE = [*EVEN, step(30, 90, "Sort.cu.o")]


def test_how_many_ran_at_once() -> None:
    assert lanes([]) == 0
    assert lanes(EVEN) == 2, "one ends where the next begins: no third"
    assert lanes(LATE) == 2


def test_the_same_steps_longest_first() -> None:
    assert packed_seconds(EVEN, 2) == 30
    assert packed_seconds(LATE, 2) == 60, "the giant alone fills one core"


def test_the_end_with_idle_cores() -> None:
    seconds, late = idle_tail(LATE, 2)
    assert seconds == 60 and [edge.outputs for edge in late] == [("dir/Sort.cu.o",)]
    assert idle_tail(EVEN, 2)[0] == 0


def test_a_giant_at_the_end_is_named_with_what_it_cost() -> None:
    [said] = quicker(LATE, result())
    assert said.startswith("30 s at the end") and "Sort.cu (60 s)" in said, "90 s could have been 60"
    assert quicker(EVEN, result()) == []


@pytest.mark.parametrize(("giant", "told"), [(320, True), (330, False)])
def test_what_is_not_worth_it_is_not_told(giant: float, told: bool) -> None:
    """Ten seconds could be saved: worth telling as long as that is three per cent of the compile time."""
    steps = [step(0, 10), step(0, 10, "b.cpp.o"), step(10, 10 + giant, "last.cu.o")]
    assert bool(quicker(steps, result())) is told


def test_one_core_and_other_runs_say_nothing_of_giants() -> None:
    assert quicker([step(0, 10), step(10, 90, "Sort.cu.o")], result()) == []
    again = [Edge(start=e.start, end=e.end, outputs=e.outputs, hash=e.hash, run=1) for e in EVEN]
    assert quicker([*LATE, *again], result()) == [], "the last run is what the next one will be like"


@pytest.mark.parametrize(
    ("seconds", "project", "setting", "told"),
    [(600, "torch", {}, True), (599, "torch", {}, False), (601, "spark", {}, False),
     (601, "torch", {"USE_PRECOMPILED_HEADERS": "1"}, False), (601, "torch", {"USE_PRECOMPILED_HEADERS": "0"}, True)],
)  # fmt: skip
def test_precompiled_headers(seconds: float, project: str, setting: dict[str, str], told: bool) -> None:
    said = quicker([step(0, seconds)], result(project=project, environment=setting))
    assert any("USE_PRECOMPILED_HEADERS=1" in one for one in said) is told


@pytest.mark.parametrize(
    ("seconds", "launcher", "told"), [(60, {}, True), (59, {}, False), (61, {"ccache": "3"}, False)]
)
def test_a_cache(seconds: float, launcher: dict[str, str], told: bool) -> None:
    said = quicker([step(0, seconds)], result(launcher=launcher))
    assert any("1 compilations took 1 min: with --launcher ccache" in one for one in said) is told


def test_waiting_for_memory() -> None:
    assert "paused 3 times" in quicker([step(0, 5)], result(paused=3))[0]
    assert quicker([], result()) == []


def test_what_saves_most_comes_first() -> None:
    """Precompiled headers save about half of what C++ took; a compiler that waits for memory, itself at the most."""
    edges = [step(0, 350, "a.cpp.o"), step(350, 700, "b.cpp.o")]
    told = quicker(edges, result(paused=2))
    assert [text.split(" ")[0] for text in told if not text.startswith("350")] == ["Compilers", "C++"], "350 before 350"
    edges.append(step(700, 800, "c.cpp.o"))
    told = quicker(edges, result(paused=2, launcher={}))
    assert [text.split(" ")[0] for text in told] == ["C++", "Compilers", "3"], "400, 350, and the next build"


def test_how_many_ran_at_once_is_counted_on_after_one_has_ended() -> None:
    assert lanes([step(0, 10), step(10, 30), step(15, 30)]) == 2
    assert lanes([step(0, 10), step(5, 30), step(12, 30), step(14, 20)]) == 3


def test_of_those_at_the_end_the_longest_comes_first() -> None:
    edges = [*(step(0, 10, f"{n}.cpp.o") for n in range(4)), step(10, 80, "long.cu.o"), step(70, 90, "late.cpp.o")]
    seconds, late = idle_tail(edges, 4)
    assert seconds == 80 and [edge.outputs[0] for edge in late] == ["dir/long.cu.o", "dir/late.cpp.o"]


def test_of_three_giants_each_is_named_and_of_four_the_three_longest() -> None:
    even = [step(0, 10, f"f{n}.cpp.o") for n in range(8)]
    giants = [step(10, 100 + n, f"g{n}.cu.o") for n in range(4)]
    [three] = quicker([*even, *giants[:3]], result())
    assert "while g2.cu (92 s), g1.cu (91 s), g0.cu (90 s) ran" in three
    [four] = quicker([*even, *giants], result())
    assert "g3.cu (93 s), g2.cu (92 s), g1.cu (91 s) ran" in four and "g0.cu" not in four


def test_what_configure_took_before_is_no_time_of_the_compilers() -> None:
    """Three per cent of what the compilers took, from the first to the last: 10 of 330 seconds, and not of 1330."""
    steps = [step(1000, 1010), step(1000, 1010, "b.cpp.o"), step(1010, 1330, "last.cu.o")]
    [told] = quicker(steps, result())
    assert told.startswith("10 s at the end")


def test_exactly_three_per_cent_is_worth_telling() -> None:
    assert quicker([step(0, 3), step(0, 3, "b.cpp.o"), step(3, 100, "last.cu.o")], result())


def test_only_what_compiled_counts_for_headers_and_cache() -> None:
    linked = [step(0, 599), step(0, 500, "libtorch.so"), step(0, 500, "k.cu.o")]
    assert not any("USE_PRECOMPILED_HEADERS" in text for text in quicker(linked, result()))
    [told] = [text for text in quicker(linked, result(launcher={})) if "--launcher" in text]
    assert told.startswith("2 compilations took 18 min"), "599 + 500 seconds"
    assert not any("--launcher" in text for text in quicker([step(0, 900, "libtorch.so")], result(launcher={})))


def test_minutes_are_minutes() -> None:
    said = quicker([step(0, 7200)], result(launcher={}))
    assert [text.split(":")[0] for text in said] == ["C++ took 120 min of compiling", "1 compilations took 120 min"]


def test_what_saves_only_the_next_build_comes_last() -> None:
    """Even behind less than a second of this one."""
    spans = ((0, 0.8), (0.8, 20.8), (0, 19.2), (0, 20), (0, 20))
    edges = [step(start, end, f"f{number}.cpp.o") for number, (start, end) in enumerate(spans)]
    saved, cache = quicker(edges, result(launcher={}))
    assert saved.startswith("1 s at the end") and "--launcher ccache" in cache


def test_a_pause_is_told_where_nothing_was_compiled() -> None:
    assert [text.split(" ")[0] for text in quicker([step(0, 1, "generated.h")], result(paused=2))] == ["Compilers"]
