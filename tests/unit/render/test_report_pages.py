"""What the report pages show first, and what they lead to."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from pages import journey, matrix, proof, wheel
from rekindle.model.verify import VerifyCheck
from rekindle.model.wheel import Verdict
from rekindle.render.pages import render_journey_html, render_matrix_html, verify_page, wheel_page


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
