"""The page in a real browser: type, choose, copy, read, by keyboard too; the same answers as the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import needs
from rekindle import api
from rekindle.api.page import ask_planner
from rekindle.facts import load_facts
from rekindle.index.pages.grid import driver_questions, fill, questions
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.model.document import encode
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
from tiny_wheels import make_wheel

pytestmark = [pytest.mark.integration, needs.tool("chromium")]
GPUS = ("none", "sm_35", "sm_61", "sm_86", "sm_120", "gfx1031")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a few architectures (all of them take a minute of planning) and a wheelhouse of one wheel."""
    base = tmp_path_factory.mktemp("the page")
    report = base / "report.json"
    report.write_bytes(encode(WheelReport(gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_35",))))))
    wheel = make_wheel(base, "torch", "2.0.1+kepler", tag="cp310-cp310-win_amd64")
    api.index_add(str(base / "house"), [str(wheel)], report=str(report))
    asks = [ask for ask in questions(GPUS) if ask.cpu in ("", "ivybridge") and ask.python in ("", "3.10", "3.12")]
    asks += driver_questions(("sm_61",), load_facts())
    grid = fill(GPUS, zip(asks, ask_planner(asks), strict=True))
    text, _ = render_page(load_facts(), grid, load_wheels(str(base / "house")), base="")
    path = base / "house" / "index.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def page(browser: Any, page_file: Path) -> Iterator[Any]:
    context = browser.new_context(
        viewport={"width": 1100, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None)
    opened.goto(page_file.as_uri())
    opened.wait_for_selector("html[data-ready=true]")
    yield opened
    assert not problems, "no errors, and no request to anywhere"
    context.close()


def _cli(*flags: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "rekindle", "plan", "--json", *flags]
    return json.loads(subprocess.run(argv, capture_output=True, timeout=60).stdout)  # type: ignore[no-any-return]


def test_type_choose_read_copy_with_the_keyboard_alone(page: Any) -> None:
    page.keyboard.press("Tab")  # skip link
    page.focus("#gpu")
    page.keyboard.type("k40c")
    page.wait_for_selector("#gpu-list [role=option]")
    assert page.get_attribute("#gpu", "aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert page.input_value("#gpu") == "Tesla K40c"
    assert page.get_attribute("#gpu", "aria-expanded") == "false"
    page.select_option("#place", "windows")
    told = _cli("--gpu", "Tesla K40c", "--os", "windows", "--arch", "x86_64")
    assert page.text_content(".verdict h2").startswith(f"PyTorch {told['torch']}")
    assert page.text_content("#answer .cmd") == "\n".join(told["commands"])
    for reason in told["because"]:
        assert reason["text"] in page.text_content("#answer")
    page.click("#answer .copy")
    assert page.evaluate("navigator.clipboard.readText()") == "\n".join(told["commands"])
    assert page.text_content("#answer .copy") == "Copied"


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("rtx5070", "GeForce RTX 5070"), ("nvidia geforce rtx 5070", "GeForce RTX 5070"),
        ("1080ti", "GeForce GTX 1080 Ti"),
        ("6700xt", "Radeon RX 6700 XT"), ("sm_86", "sm_86"), ("8.6", "sm_86"), ("tesla k4oc", "Tesla K40c"),
        ("gefroce gtx 1080", "GeForce GTX 1080"), ("none", "No graphics card"),
    ],
)  # fmt: skip
def test_forgiving_search(page: Any, typed: str, found: str) -> None:
    page.fill("#gpu", typed)
    page.keyboard.press("Enter")
    assert page.input_value("#gpu") == found


def test_an_answer_can_be_sent_as_an_address(page: Any, page_file: Path) -> None:
    page.goto(page_file.as_uri() + "#gpu=GeForce+RTX+5070&os=windows&python=3.12&cpu=ivybridge")
    page.reload()
    page.wait_for_selector(".result")
    told = _cli(
        "--gpu", "GeForce RTX 5070", "--os", "windows", "--arch", "x86_64", "--python", "3.12", "--cpu", "ivybridge"
    )
    assert page.text_content("#answer .cmd") == "\n".join(told["commands"])
    assert "--cpu ivybridge" in page.text_content("#cli")
    shown = page.text_content("#answer")
    assert all(reason["text"] in shown for reason in told["because"] + told["warnings"])


def test_a_driver_changes_the_answer_and_the_address(page: Any, page_file: Path) -> None:
    page.goto(page_file.as_uri() + "#gpu=GeForce+GTX+1080&driver=470.256.02")
    page.reload()
    page.wait_for_selector(".result")
    told = _cli("--gpu", "GeForce GTX 1080", "--os", "linux", "--arch", "x86_64", "--driver", "470.256.02")
    shown = page.text_content("#answer")
    assert page.text_content("#answer .cmd") == "\n".join(told["commands"]), "torch 2.7 is the last for that driver"
    assert all(reason["text"] in shown for reason in told["because"] + told["warnings"])
    page.fill("#driver", "1.0")
    old = page.text_content("#answer")
    assert "this one is 1.0" in old and "⟦" not in old
    page.fill("#driver", "580")
    newest = _cli("--gpu", "GeForce GTX 1080", "--os", "linux", "--arch", "x86_64", "--driver", "580")
    assert page.text_content("#answer .cmd") == "\n".join(newest["commands"])
    assert "driver=580" in page.evaluate("location.hash") and "--driver 580" in page.text_content("#cli")
    page.select_option("#python", "3.10")
    flags = ("--gpu", "GeForce GTX 1080", "--os", "linux", "--arch", "x86_64", "--python", "3.10")
    assert page.text_content("#answer .cmd") == "\n".join(_cli(*flags, "--driver", "580")["commands"])
    assert "Driver 580 runs CUDA" in page.text_content("#answer")
    assert "Needs NVIDIA driver" not in page.text_content("#answer")
    assert "--index-url" in page.locator("#answer .cmd span").all_text_contents(), "an option is never broken in two"
    assert "driver=580" in page.evaluate("location.hash") and "python=3.10" in page.evaluate("location.hash")
    for other in ("470.256.02", "610.1"):  # older than the CUDA of the plan, newer than the card's last branch
        page.fill("#driver", other)
        assert page.query_selector("#answer .result") is None, "nothing is told that the planner was not asked"
        assert page.text_content("#answer .cmd").endswith(f"--python 3.10 --driver {other}")
    page.fill("#driver", "newest")
    assert "470 or 535.183.01" in page.text_content("#driver-note")
    page.fill("#gpu", "gfx1031")
    page.keyboard.press("Enter")
    assert not page.is_visible("#driver"), "only NVIDIA's drivers count"
    assert page.query_selector("#answer .result") and "driver" not in page.evaluate("location.hash")


def test_companions_can_be_looked_up(page: Any) -> None:
    page.fill("#gpu", "sm_61")
    page.wait_for_selector("#gpu-list [role=option]")
    page.keyboard.press("Enter")
    page.click("#answer details summary:has-text('beside it')")
    rows = {row.query_selector("th").text_content(): row for row in page.query_selector_all("#answer details tbody tr")}
    assert rows["flash-attn"].query_selector(".pill").text_content() == "does not run"
    assert rows["bitsandbytes"].query_selector(".pill").text_content() in ("runs", "last version")
    assert "--gpu sm_61" in page.text_content("#answer details code")
    page.select_option("#python", "3.10")
    assert page.query_selector("#answer details summary:has-text('beside it')") is None, "only told where it was asked"


def test_nonsense_is_told_and_harmless(page: Any) -> None:
    page.fill("#gpu", "<img src=x onerror=alert(1)>")
    page.wait_for_selector("#gpu-list .empty")
    page.keyboard.press("Escape")
    assert not page.query_selector("#answer .result")


def test_the_wheelhouse_answers_below(page: Any) -> None:
    page.fill("#gpu", "Tesla K40c")
    page.keyboard.press("Enter")
    page.select_option("#place", "windows")
    assert "torch-2.0.1+kepler" in page.text_content("#house")
    assert "#sha256=" in page.text_content("#house .cmd")
    page.select_option("#place", "linux")
    assert "torch-2.0.1+kepler" not in page.text_content("#house")


def test_the_matrix_has_sources_on_hover_and_focus(page: Any) -> None:
    page.click("#tab-matrix")
    page.hover("#table tbody tr:first-child td:last-child")
    assert "Source:" in page.text_content(".tip") and page.is_visible(".tip")
    page.focus("#table tbody tr:first-child button")
    assert page.is_visible(".tip")
    page.keyboard.press("Escape")
    assert not page.is_visible(".tip")
    assert page.get_attribute("#tab-matrix", "aria-pressed") == "true"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (390, "light"), (1280, "dark")])
def test_it_fits_and_can_be_read(browser: Any, page_file: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page = context.new_page()
    page.goto(page_file.as_uri() + "#gpu=Tesla+K40c")
    page.wait_for_selector(".result")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    contrasts = page.evaluate(CONTRAST)
    low = {key: value for key, value in contrasts.items() if value < 4.5}
    assert not low, low
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input, select')].filter((n) => !n.labels || !n.labels.length).map((n) => n.id)"
    )
    assert not unnamed
    context.close()


# WCAG contrast of text against the nearest opaque background, for what readers must read.
CONTRAST = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const behind = (node) => { for (; node; node = node.parentElement) {
    const c = rgb(getComputedStyle(node).backgroundColor);
    if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
  const found = {};
  for (const where of ["h1", ".lead", "label", ".hint", ".verdict h2", ".verdict p", ".chips li", ".cmd", ".copy",
      ".why li", "summary", ".rows th", ".rows td", ".pill", "footer p", ".tab", ".tries button"]) {
    const node = document.querySelector(where); if (!node) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    found[where] = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  }
  return found;
}"""
