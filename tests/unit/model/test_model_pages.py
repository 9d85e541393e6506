"""The face of every page: what stands in its head, and what a report shows first."""

from __future__ import annotations

import pytest

from rekindle.model.page import header, page, report_style


@pytest.mark.parametrize(
    ("good", "first"),
    [(True, '<h1 class="good">✓ a &lt;b&gt;</h1>'), (False, '<h1 class="bad">✗ a &lt;b&gt;</h1>'), (None, "<h1>a ")],
)
def test_the_verdict_comes_first_with_its_mark(good: bool | None, first: str) -> None:
    top = header("a <b>", good=good)
    assert first in top and top.startswith('<header>\n<div class="brand">Rekindle</div>') and "soft" not in top


def test_a_page_among_many_shows_no_brand_and_what_is_known_about_it() -> None:
    top = header("a", "x & y", brand=False)
    assert "brand" not in top and '<div class="soft about">x &amp; y</div>' in top


def test_a_page_stands_alone_unless_it_shares_its_style() -> None:
    assert ":root {" in report_style() and "@media print" in report_style(), "the colours and the components"
    alone = page("a & b", "<p>body</p>", more_style="x {}")
    assert f"<style>\n{report_style()}x {{}}</style>" in alone and "<link" not in alone and "<script" not in alone
    assert "<title>a &amp; b – Rekindle</title>" in alone and "<main>\n<p>body</p>\n</main>" in alone
    shared = page("a", "", stylesheet='s".css', script="s.js")
    assert '<link rel="stylesheet" href="s&quot;.css">' in shared and "<style>" not in shared
    assert '<script src="s.js" defer></script>' in shared
