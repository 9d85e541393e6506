"""What the report pages show first, and what they lead to."""

from __future__ import annotations

import html
import re
from pathlib import Path

import msgspec
import pytest

from pages import journey, matrix, proof, wheel
from rekindle.model.document import Document
from rekindle.model.journey import Journey, Leg
from rekindle.model.matrix import CellRow, CellState, MatrixStatus
from rekindle.model.verify import VerifyCheck
from rekindle.model.wheel import (
    ArchSet,
    CodeEvidence,
    External,
    IsaUse,
    LibraryGpu,
    Links,
    Verdict,
    WheelCpu,
    WheelGpu,
    WheelReport,
)
from rekindle.render.pages import render_html, render_journey_html, render_matrix_html, verify_page, wheel_page
from views import expected_views


def title(page: str) -> str:
    (found,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page)
    return str(found)


def test_a_walk_leads_to_the_page_of_its_build_where_there_is_one(tmp_path: Path) -> None:
    walked = msgspec.structs.replace(journey(), report=str(tmp_path / "report.html"))
    assert "build.html" not in render_journey_html(walked)
    (tmp_path / "build.html").write_text("x")
    assert '<a href="build.html">How the build went</a>' in render_journey_html(walked)
    assert "build.html" not in render_journey_html(msgspec.structs.replace(walked, report=None))


def test_a_walk_says_once_what_is_behind_dispatch() -> None:
    page = render_journey_html(journey())
    assert page.count("behind dispatch") == 1 and "avx512 (8120 functions), avx2 (20000 functions)" in page


def test_inspect_says_its_verdict_first() -> None:
    assert title(wheel_page(wheel())) == "torch 2.14.1+cu126"
    judged = msgspec.structs.replace(wheel(), verdict=Verdict(machine="Tesla K40c", runs=False))
    assert title(wheel_page(judged)) == "✗ torch 2.14.1+cu126: does not run on Tesla K40c"


def test_verify_names_what_was_not_tried() -> None:
    skipped = VerifyCheck(id="two-gpus", status="skipped", seconds=0.0, detail="one GPU here")
    report = msgspec.structs.replace(proof(), checks=(*proof().checks, skipped), skipped=1)
    page = verify_page(report)
    assert "<h2>Not tried</h2>" in page and "<b>two-gpus</b> one GPU here" in page
    assert "<h2>Not tried</h2>" not in verify_page(proof())


def test_failed_cells_of_a_matrix_come_first() -> None:
    names = re.findall(r'<summary><span class="(\w+)">', render_matrix_html(matrix()))
    assert names[0] == "failed" and names.count("failed") == 1


STATES = (
    CellState(id="a", stage="proven", seconds=61.0, peak_memory_bytes=3 << 30, proof="proven, smoke"),
    CellState(id="b", stage="failed", cache={"hit rate": "90 %"}),
    CellState(id="c", stage="waiting"),
)
CELLS = tuple(
    CellRow(cell=state.id, name=name, state=state, rebuild=False, because="of it")
    for state, name in zip(STATES, ("torch-py3.9-cpu", "torch-py3.10-cpu", "own"), strict=True)
)
SETS = (
    ArchSet(archs=("sm_80", "sm_90"), count=3, origin="own", kernels=("k",)),
    ArchSet(archs=("sm_90",), count=2, origin="static", kernels=("cublas", "cutlass")),
    *(ArchSet(archs=("sm_90",), count=n, origin="own") for n in range(10)),
)
EVIDENCE = tuple(
    CodeEvidence(file="torch/lib/a.so", function=f"f{n}", isa=isa, why="called")
    for n, isa in enumerate((("avx", "lzcnt"), ("lzcnt",), ()))
)
WHEEL = WheelReport(
    name="torch",
    version="2.6",
    tags=("cp312-cp312-linuxx",),
    cuda="12.4",
    gpu=WheelGpu(
        libraries=(LibraryGpu(file="torch/lib/a.so", sass=("sm_80", "sm_90"), sets=SETS), LibraryGpu(file="b.so"))
    ),
    cpu=WheelCpu(
        functions=9,
        runs_from="nehalem",
        unconditional=(IsaUse(isa="avx", functions=1200),),
        evidence=EVIDENCE,
    ),
    links=Links(
        glibc="2.28",
        glibcxx="3.4.25 and no older",
        sources=(
            External(library="libx.so", needed_by=tuple("abcdefg")),
            *(External(library=f"l{n}.so", needed_by=(), package="p") for n in range(12)),
        ),
    ),
)
PAGES: dict[str, Document] = {
    "wheel": WHEEL,
    "wheel-twelve": WheelReport(name="t", links=Links(sources=WHEEL.links.sources[1:])),
    "wheel-bare": WheelReport(target="w", cpu=WheelCpu(functions=1, at_least="nehalem")),
    "matrix": MatrixStatus(root="/r", rows=CELLS, counts={"proven": 1, "failed": 1, "waiting": 1}),
    "matrix-none": MatrixStatus(root="/r", rows=()),
    "walk": Journey(
        goal="g",
        arrived=True,
        verdict="v",
        workspace="/w",
        machine="m",
        legs=(Leg(name="plan", status="done", seconds=1.0), Leg(name="build", status="done", seconds=4.0)),
    ),
    "walk-kept": Journey(goal="g", arrived=False, verdict="v", workspace="/w", legs=(Leg(name="plan", status="kept"),)),
    "walk-none": Journey(goal="g", arrived=False, verdict="v", workspace="/w"),
}


def body(name: str) -> str:
    """What stands between the style and the document itself, as it is in the file."""
    page = html.unescape(render_html(PAGES[name])).partition("<header>\n")[2].partition("</main>")[0]
    return page.partition("<details><summary>This report as JSON")[0].rstrip() + "\n"


BODIES = expected_views(Path(__file__).parent / "views" / "pages.txt")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_written_as_it_was(name: str) -> None:
    assert body(name) == BODIES[name], "if the new page is better, write it into views/pages.txt"
