"""The report: bars without overlap, complete, escaped, and readable with no network."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rekindle.build.governor import Sample
from rekindle.build.history import History, ObjectCosts
from rekindle.build.report import LANE, WIDTH, memory_lines, time_line, write_report
from rekindle.formats.ninja import Edge
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
    assert {bar.y for bar in bars} == {lane * LANE for lane in range(lanes)}
    # Runs stand one after another; within a lane one job ends before the next begins, in time and on paper.
    ends = {run: max(edge.end for edge in edges if edge.run == run) for run in {edge.run for edge in edges}}
    begins = {run: sum(ends[earlier] for earlier in ends if earlier < run) for run in ends}
    assert total == max(1, sum(ends.values())) / 1000
    spans = {edge.outputs[0]: (begins[edge.run] + edge.start, begins[edge.run] + edge.end) for edge in edges}
    for lane in {bar.y for bar in bars}:
        row = [bar for bar in bars if bar.y == lane]
        for left, right in itertools.pairwise(row):
            assert spans[left.title.split(":")[0]][1] <= spans[right.title.split(":")[0]][0]
            assert left.x + max(0, left.width - 0.3) <= right.x + 0.01


def test_lanes_are_as_few_as_can_be() -> None:
    def lanes(*spans: tuple[int, int]) -> int:
        return time_line([Edge(start=a, end=b, outputs=(f"{a}.o",), hash="x", run=0) for a, b in spans])[1]

    assert lanes((0, 10), (10, 20)) == 1  # one ends where the next begins
    assert lanes((0, 11), (10, 20)) == 2
    assert lanes((0, 100), (0, 5), (5, 9)) == 2


def test_memory_needs_two_points() -> None:
    assert memory_lines([]) == {}
    samples = [Sample(seconds=n, used=n * 100, available=1, running=1, paused=0, allowed=2) for n in range(5000)]
    drawn = memory_lines(samples)
    assert int(str(drawn["peak"])) <= 499900
    assert len(str(drawn["used"]).split()) <= 1300


def test_the_whole_page(tmp_path: Path) -> None:
    (tmp_path / ".ninja_log").write_text("# ninja log v6\n0\t900\t1\ta/<b>.cpp.o\tx\n5\t990\t1\tlib.so\ty\n")
    result = BuildResult(
        project="torch", wheel="/w/torch-1.whl", wheel_sha256="ab",
        plan=Plan(answer="build", build=BuildRecipe(source="x")),
        plan_digest="cd", phases=(Phase(name="compile", seconds=90.0),), environment={"X": "<script>"},
        facts=(Fact(name="BLAS", wanted="OpenBLAS", found="open", ok=True),),
    )  # fmt: skip
    learnt = ObjectCosts(History(objects={"a/<b>.cpp.o": (500 << 20, 1.0)}))
    samples = [Sample(seconds=n, used=n, available=1, running=1, paused=0, allowed=2) for n in range(9)]
    write_report(tmp_path / "r.html", result, tmp_path, samples, learnt)
    page = (tmp_path / "r.html").read_text()
    assert "<script" not in page
    assert "&lt;b&gt;.cpp.o" in page
    assert "500 MiB" in page
    assert "http" not in page
    assert page.count("<rect") == 2
