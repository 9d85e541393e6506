"""The report: bars without overlap, complete, escaped, and readable with no network."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rekindle.build.governor import Sample
from rekindle.build.history import History, Learnt
from rekindle.build.report import WIDTH, duration, memory_lines, time_line, write_report
from rekindle.formats.ninja_log import Edge
from rekindle.model.build import BuildResult, Fact, Phase
from rekindle.model.plan import BuildRecipe, Plan


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 900), st.integers(0, 2)), max_size=40))
def test_bars_of_one_lane_never_overlap(raw: list[tuple[int, int, int]]) -> None:
    edges = [
        Edge(start=start, end=start + length, outputs=(f"{n}.o",), hash="x", run=run)
        for n, (start, length, run) in enumerate(sorted(raw, key=lambda r: r[2]))
    ]
    bars, lanes, total, _ = time_line(edges)
    assert len(bars) == len(edges)
    assert all(0 <= bar.x <= WIDTH for bar in bars)
    assert lanes <= max(1, len(edges)) or not edges
    assert total >= 0
    for lane in {bar.y for bar in bars}:
        row = sorted((bar for bar in bars if bar.y == lane), key=lambda bar: bar.x)
        for left, right in itertools.pairwise(row):
            assert left.x <= right.x + 0.01


def test_memory_needs_two_points() -> None:
    assert memory_lines([]) == {}
    samples = [Sample(seconds=n, used=n * 100, available=1, running=1, paused=0, allowed=2) for n in range(5000)]
    drawn = memory_lines(samples)
    assert drawn["peak"] <= 499900
    assert len(str(drawn["used"]).split()) <= 1300


def test_the_whole_page(tmp_path: Path) -> None:
    (tmp_path / ".ninja_log").write_text("# ninja log v6\n0\t900\t1\ta/<b>.cpp.o\tx\n5\t990\t1\tlib.so\ty\n")
    result = BuildResult(
        project="torch", wheel="/w/torch-1.whl", wheel_sha256="ab",
        plan=Plan(answer="build", build=BuildRecipe(source="x")),
        plan_digest="cd", phases=(Phase(name="compile", seconds=90.0),), environment={"X": "<script>"},
        facts=(Fact(name="BLAS", wanted="OpenBLAS", found="open", ok=True),),
    )  # fmt: skip
    learnt = Learnt(History(objects={"a/<b>.cpp.o": (500 << 20, 1.0)}))
    samples = [Sample(seconds=n, used=n, available=1, running=1, paused=0, allowed=2) for n in range(9)]
    write_report(tmp_path / "r.html", result, tmp_path, samples, learnt)
    page = (tmp_path / "r.html").read_text()
    assert "<script" not in page
    assert "&lt;b&gt;.cpp.o" in page
    assert "500 MiB" in page
    assert "http" not in page
    assert page.count("<rect") == 2


def test_durations() -> None:
    assert [duration(s) for s in (3.21, 75, 4000)] == ["3.2 s", "1 min 15 s", "1 h 06 min"]
