"""What the report draws: bars, marks, ticks, curves and tables, at their ends and where there is next to nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rekindle.build import report
from rekindle.build.governor import Sample
from rekindle.build.report import LANE, MEMORY_HEIGHT, WIDTH, by_kind, memory_lines, time_line, write_report
from rekindle.formats.ninja import Edge
from rekindle.model.build import BuildResult
from rekindle.model.plan import BuildRecipe, Plan


def step(start: int, end: int, name: str = "", run: int = 0) -> Edge:
    """In milliseconds."""
    return Edge(start=start, end=end, outputs=(name or f"d/{start}-{end}.cpp.o",), hash="x", run=run)


def names(edges: list[Edge]) -> list[str]:
    return [bar.title.partition(".cpp.o")[0] for bar in time_line(edges)[0]]


def test_bars_fill_the_width_and_neighbours_do_not_touch() -> None:
    (left, right), lanes, total, marks = time_line([step(0, 400), step(400, 1000)])
    assert (lanes, total, marks) == (1, 1.0, [])
    assert (left.x, right.x) == (0, WIDTH * 0.4)
    assert 0 < right.x - (left.x + left.width) < 0.5 and 0 < WIDTH - (right.x + right.width) < 0.5
    assert (left.y, left.kind, left.title) == (0, "cxx", "0-400.cpp.o: 0.4 s")


def test_a_short_step_is_seen_but_thin() -> None:
    bars, *_ = time_line([step(0, 1), step(1, 100_000)])
    assert 0 < bars[0].width < 1


def test_no_place_has_more_than_two_digits_behind_the_point() -> None:
    """A page of thousands of bars stays small, and nothing moves that anybody could see."""
    bars, *_ = time_line([step(1000, 2000), step(2000, 3000)])
    for bar in bars:
        assert re.fullmatch(r"\d+\.\d{1,2} \d+\.\d{1,2}", f"{bar.x} {bar.width}")
    assert bars[0].x == pytest.approx(WIDTH / 3, abs=0.01)


def test_each_run_begins_where_the_one_before_ended() -> None:
    edges = [step(0, 1000), step(0, 2000, run=1), step(500, 3000, run=2)]
    bars, lanes, total, marks = time_line(edges)
    assert (lanes, total) == (1, 6.0)
    assert [bar.x for bar in bars] == pytest.approx([0, WIDTH / 6, WIDTH * 3.5 / 6], abs=0.01)
    assert marks == pytest.approx([WIDTH / 6, WIDTH * 3 / 6], abs=0.1)
    assert all(re.fullmatch(r"\d+\.\d", str(mark)) for mark in marks)


def test_of_too_many_steps_the_longest_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_BARS", 2)
    assert names([step(0, 10), step(20, 80), step(200, 300)]) == ["20-80", "200-300"]
    assert names([step(0, 10), step(10, 20), step(20, 21)]) == ["0-10", "10-20"]


def test_what_finds_no_lane_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MAX_LANES", 1)
    edges = [step(0, 100), step(50, 150), step(100, 200)]
    assert names(edges) == ["0-100", "100-200"], "one lane: the second begins too early, the third in time"
    monkeypatch.setattr(report, "MAX_LANES", 2)
    assert names(edges) == ["0-100", "50-150", "100-200"]


def test_steps_are_summed_by_kind_what_took_most_first() -> None:
    edges = [step(0, 1000), step(0, 500), step(0, 4000, "k.cu.o"), step(0, 100, "lib.so")]
    assert by_kind(edges) == [("gpu", 1, 4.0), ("cxx", 2, 1.5), ("link", 1, 0.1)]


def sample(seconds: float, used: int = 0, running: int = 0, paused: int = 0) -> Sample:
    return Sample(seconds=seconds, used=used, available=1, running=running, paused=paused, allowed=2)


def points(drawn: dict[str, object], name: str) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in str(drawn[name]).split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_curves_go_from_the_left_to_the_right_and_from_the_ground_to_the_top() -> None:
    drawn = memory_lines([sample(0), sample(5, 100, 1, 0), sample(20, 400, 2, 2)])
    assert [x for x, _ in points(drawn, "used")] == [0, WIDTH / 4, WIDTH]
    heights = [MEMORY_HEIGHT - y for _, y in points(drawn, "used")]
    top = heights[-1]
    assert heights == [0, top / 4, top] and MEMORY_HEIGHT - 5 < top < MEMORY_HEIGHT, "room for the line's own width"
    # Jobs by a scale of their own, running and paused by the same.
    assert [MEMORY_HEIGHT - y for _, y in points(drawn, "running")] == [0, top / 4, top / 2]
    assert [MEMORY_HEIGHT - y for _, y in points(drawn, "paused")] == [0, 0, top / 2]
    assert (drawn["peak"], drawn["most"], drawn["seconds"]) == (400, 4, 20)


def test_two_moments_are_enough_and_one_is_not() -> None:
    assert memory_lines([sample(1, 1)]) == {}
    assert len(points(memory_lines([sample(1, 1), sample(2, 2)]), "used")) == 2


def test_a_run_without_time_memory_or_jobs_is_drawn_on_the_ground() -> None:
    drawn = memory_lines([sample(0), sample(0)])
    assert {point for name in ("used", "running", "paused") for point in points(drawn, name)} == {(0, MEMORY_HEIGHT)}
    busy = memory_lines([sample(0), sample(0.5, 7, 1)])
    assert points(busy, "used")[-1][0] == WIDTH and (busy["peak"], busy["most"]) == (7, 1)


def test_there_are_not_many_more_points_than_pixels() -> None:
    assert len(points(memory_lines([sample(n) for n in range(2 * WIDTH)]), "used")) == WIDTH
    assert len(points(memory_lines([sample(n) for n in range(2 * WIDTH - 1)]), "used")) == 2 * WIDTH - 1
    assert len(points(memory_lines([sample(n) for n in range(5)]), "used")) == 5


def written(folder: Path, log: str, **more: Any) -> str:
    (folder / ".ninja_log").write_text(f"# ninja log v6\n{log}")
    values: dict[str, Any] = {
        "project": "torch", "wheel": "", "wheel_sha256": "", "plan_digest": "",
        "plan": Plan(answer="build", build=BuildRecipe(source="x")), **more,
    }  # fmt: skip
    write_report(folder / "r.html", BuildResult(**values), folder, [], None)
    return (folder / "r.html").read_text()


def test_ticks_tell_the_time_from_the_first_to_the_last_second(tmp_path: Path) -> None:
    page = written(tmp_path, "0\t20000\t1\tb.cpp.o\ty\n0\t50000\t1\ta.cpp.o\tx\n")
    ticks = re.findall(r'<text class="tick" x="(\d+)"[^>]*>([^<]*)</text>', page)
    assert [int(x) for x, _ in ticks] == [WIDTH * part // 5 for part in range(6)]
    assert [label for _, label in ticks] == ["0.0 s", "10 s", "20 s", "30 s", "40 s", "50 s"]
    assert f'viewBox="0 0 {WIDTH} {2 * LANE + 16}"' in page, "two lanes, and the ticks below"


def test_a_build_without_ninja_has_no_time_line(tmp_path: Path) -> None:
    page = written(tmp_path, "")
    assert "Ninja left no log" in page and "Too short to measure" in page and '<rect class="cxx"' not in page


def test_the_slowest_steps_come_first_and_late_ones_do_not(tmp_path: Path) -> None:
    page = written(tmp_path, "0\t1000\t1\tshort.cpp.o\tz\n0\t3000\t1\tlong.cpp.o\tx\n9000\t9500\t1\tlate.cpp.o\ty\n")
    table = page[page.index("Slowest steps") :]
    assert table.index("long.cpp.o") < table.index("short.cpp.o") < table.index("late.cpp.o")
    assert "MiB" not in table, "what nothing was learnt of has no peak"


def test_sizes_are_told_in_gib_and_an_unknown_one_is_nothing(tmp_path: Path) -> None:
    page = written(tmp_path, "", peak_memory_bytes=3 << 29, memory_budget_bytes=8 << 30)
    assert "<b>1.50 GiB</b>peak memory of 8.00 GiB allowed" in page
    assert "<b>0.00 GiB</b>peak memory<" in written(tmp_path, "")


def test_a_token_among_the_settings_is_not_shown(tmp_path: Path) -> None:
    page = written(tmp_path, "", environment={"USE_CUDA": "A=B", "CMAKE_TOKEN": "hunter2hunter2"})
    assert "A=B" in page and "hunter2" not in page
