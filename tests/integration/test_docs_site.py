"""The documentation as a site: no link leads nowhere, search is there, and it can be read on a phone and on a desk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import needs

pytestmark = [pytest.mark.integration, pytest.mark.network, needs.tool("chromium")]
ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"


@pytest.fixture(scope="module")
def site() -> Path:
    argv = [sys.executable, str(ROOT / "tools" / "make_site.py"), "--no-finder"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return SITE


def test_it_is_read_on_a_phone_and_on_a_desk(browser: Any, site: Path) -> None:
    for width in (390, 1280):
        context = browser.new_context(viewport={"width": width, "height": 844})
        for name in ("index", "guides/kepler", "guides/amd", "reference", "finder"):
            tab = context.new_page()
            tab.goto((site / f"{name}.html").as_uri())
            assert tab.locator("h1").first.is_visible(), (name, width)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        context.close()


def test_every_page_can_be_found_by_search(site: Path) -> None:
    words = json.dumps(json.loads((site / "search.json").read_text(encoding="utf-8")))
    for page in ("Kepler", "RX 580", "TORCH_CUDA_ARCH_LIST", "--why-not"):
        assert page in words, page


def test_commands_are_shown_as_code(site: Path) -> None:
    page = (site / "guides" / "kepler.html").read_text(encoding="utf-8")
    assert "```" not in page
    assert "language-console" in page or "highlight" in page
