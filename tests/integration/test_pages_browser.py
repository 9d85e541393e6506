"""Every report in a real browser, on a phone and on a desk, in the light and in the dark: nothing overflows."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

import needs
from pages import house, pages
from rekindle.index.server import open_server
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.page import report_style

pytestmark = [pytest.mark.integration, needs.tool("chromium")]
# What sticks out of the window though nothing lets it scroll inside a frame of its own.
WIDER = """() => {
  const limit = document.documentElement.clientWidth;
  const framed = (e) => { for (; e; e = e.parentElement) {
    const o = getComputedStyle(e).overflowX; if (o === 'auto' || o === 'scroll') return true } return false };
  return [...document.body.querySelectorAll('*')]
    .filter(e => e.getBoundingClientRect().right > limit + 1 && !framed(e))
    .slice(0, 5).map(e => e.tagName + ': ' + e.textContent.slice(0, 60));
}"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = {}
    for name, text in pages(folder):
        found[name] = folder / f"{name}.html"
        found[name].write_text(text, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def housed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return house(tmp_path_factory.mktemp("housed"))


def test_nothing_overflows_on_a_phone_or_a_desk(
    browser: Any, written: dict[str, Path], housed: dict[str, Path]
) -> None:
    shots = os.environ.get("REKINDLE_SCREENSHOTS")
    for width, height, scheme in ((390, 844, "light"), (390, 844, "dark"), (1280, 900, "light")):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        for name, path in (written | housed).items():
            tab = context.new_page()
            tab.goto(path.as_uri())
            if shots:
                tab.screenshot(path=f"{shots}/{name}-{width}-{scheme}.png", full_page=True)
            tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
            assert tab.evaluate(WIDER) == [], (name, width)
            assert tab.evaluate("document.querySelector('h1').getBoundingClientRect().top") < 200, name
            tab.close()
        context.close()


def test_a_page_that_overflows_would_be_noticed(browser: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<body><div style='width:900px'>wide</div></body>")
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(bad.as_uri())
    assert tab.evaluate(WIDER) and tab.evaluate("document.documentElement.scrollWidth") > 390
    tab.close()


def test_words_stand_out_enough_from_their_ground(browser: Any, written: dict[str, Path]) -> None:
    """WCAG AA: 4.5 to 1 for the soft and the coloured words, in both schemes."""
    for scheme in ("light", "dark"):
        tab = browser.new_context(color_scheme=scheme).new_page()
        tab.goto(written["journey"].as_uri())
        for name in ("--ink", "--soft", "--ok", "--no", "--build", "--accent"):
            for ground in ("--bg", "--card"):
                pair = [tab.evaluate(_RESOLVED, one) for one in (name, ground)]
                assert contrast(*pair) >= 4.5, (scheme, name, ground)
        tab.close()


_RESOLVED = """(name) => { const e = document.createElement('i'); e.style.color = `var(${name})`;
  document.body.append(e); const c = getComputedStyle(e).color; e.remove(); return c }"""


def contrast(one: str, other: str) -> float:
    def light(text: str) -> float:
        parts = [int(number) / 255 for number in re.findall(r"\d+", text)[:3]]
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_report_has_the_one_face(written: dict[str, Path]) -> None:
    for name, path in written.items():
        text = path.read_text(encoding="utf-8")
        assert report_style() in text, name
        assert 'class="brand"' in text and text.index("<h1") < text.index("<section"), name
        assert "http-equiv" not in text and "<script" not in text and "<link" not in text, name


def test_the_wheelhouse_has_it_too(browser: Any, housed: dict[str, Path]) -> None:
    """One style for thousands of pages lies beside them; the finder, which is sent around alone, holds it."""
    assert report_style() in housed["finder"].read_text(encoding="utf-8")
    assert (housed["projects"].parent / "style.css").read_text(encoding="utf-8") == report_style()
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    for name, path in housed.items():
        tab.goto(path.as_uri())
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(250, 248, 245)", name
        assert tab.evaluate("document.querySelectorAll('.brand').length") == 1, name
    tab.close()


def test_served_pages_look_and_work_as_the_files_do(browser: Any, housed: dict[str, Path]) -> None:
    """Seen once: every wheel's page without its style, because the server called it bytes."""
    root = housed["finder"].parent
    with open_server(Wheelhouse(root), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            tab = browser.new_page(viewport={"width": 390, "height": 844})
            problems: list[str] = []
            tab.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            tab.goto(f"{server.url}wheel/")
            tab.click("text=torch")
            tab.click("table.fields a >> nth=0")
            tab.wait_for_selector(".copy")
            assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(250, 248, 245)"
            assert f'"torch @ {server.url}wheels/torch/' in tab.text_content("pre.cmd")
            assert [text for text in problems if "favicon" not in text] == []
            tab.close()
        finally:
            server.shutdown()
            thread.join()
