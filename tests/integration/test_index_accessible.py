"""The pages under axe-core: labels, contrast, order, names of controls; light, dark, and on a phone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import needs
from pages import pages
from rekindle import api
from rekindle.api.page import ask_planner
from rekindle.facts import load_facts
from rekindle.index.pages.grid import fill, questions
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.model.document import encode
from rekindle.model.wheel import Kernels, LibraryGpu, WheelGpu, WheelReport
from tiny_wheels import make_wheel

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rekindle-ci"
AXE = CACHE / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = [
    pytest.mark.integration,
    needs.tool("chromium"),
    pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core (npm; .ci/prepare/travel.sh)"),
]
GPUS = ("none", "sm_35")
FILE = "torch-2.0.1+kepler-cp310-cp310-win_amd64.whl"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("pages")
    report = base / "report.json"
    libraries = (LibraryGpu(file="torch/lib/torch_cuda.dll", sass=("sm_35",)),)
    gpu = WheelGpu(torch_kernels=Kernels(sass=("sm_35",), ptx=("compute_35",)), libraries=libraries)
    report.write_bytes(encode(WheelReport(gpu=gpu)))
    wheel = make_wheel(base, "torch", "2.0.1+kepler", tag="cp310-cp310-win_amd64")
    root = base / "house"
    api.index_add(str(root), [str(wheel)], report=str(report))
    api.index_build(str(root))
    asks = [ask for ask in questions(GPUS) if ask.cpu == "" and ask.python == ""]
    grid = fill(GPUS, ((ask, ask_planner([ask])[0]) for ask in asks))
    text, _ = render_page(load_facts(), grid, load_wheels(str(root)), base="")
    (root / "index.html").write_text(text, encoding="utf-8")
    return root


def faults(page: Any) -> list[str]:
    """What axe calls a violation of WCAG 2.1 A and AA, with the first place."""
    page.add_script_tag(path=str(AXE))
    found = page.evaluate(
        "async () => (await axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})).violations"
    )
    return [f"{one['id']}: {one['nodes'][0]['html'][:160]} {one['nodes'][0]['failureSummary'][:200]}" for one in found]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 380)])
def test_pages_can_be_used_by_everyone(browser: Any, house: Path, scheme: str, width: int) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    page = context.new_page()
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url) if not request.url.startswith("file:") else None)
    for name in ("wheel/index.html", "wheel/torch/index.html", f"wheel/torch/{FILE}.html".replace("+", "%2B")):
        page.goto(f"{house.as_uri()}/{name}")
        assert faults(page) == [], name
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} scrolls sideways"
    assert f"{house.as_uri()}/wheels/torch/" in page.text_content("pre"), "the page knows its own address"
    page.goto((house / "index.html").as_uri())
    page.wait_for_selector("html[data-ready=true]")
    page.select_option("#place", "windows")
    assert page.text_content("#house a") == FILE, "wheels are listed before a card is chosen"
    assert faults(page) == [], "before a card is chosen"
    page.fill("#gpu", "Tesla K40c")
    page.keyboard.press("Enter")
    page.wait_for_selector(".result")
    assert faults(page) == [], "an answer"
    page.click("#house .wheel a")
    page.wait_for_selector(".crumbs")
    page.go_back()
    page.wait_for_selector("html[data-ready=true]")
    page.click("#tab-matrix")
    assert faults(page) == [], "the matrix"
    assert requests == []
    page.set_content("<!doctype html><title>x</title><input>")
    assert any(fault.startswith("label:") for fault in faults(page)), "it would notice"
    context.close()


def test_reports_can_be_used_by_everyone(browser: Any, tmp_path: Path) -> None:
    for scheme, width in (("light", 1280), ("dark", 390)):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        for name, text in pages(tmp_path):
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
            page = context.new_page()
            page.goto((tmp_path / f"{name}.html").as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert faults(page) == [], (name, scheme)
            page.close()
        context.close()
