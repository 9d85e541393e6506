"""How long the finder page takes to make, and how soon it can be used in a browser with 10,000 wheels in it.

Run: python benchmarks/index_page.py [WHEELS]
The second part needs chromium and playwright; there the planner is asked about a few architectures only: its part does
not grow with wheels. Measured on two aarch64 cores: 6643 questions took 60 s of processor time when each was asked
alone, 25 s since the CPUs of one card, system and Python are judged together. On the idle machine 11548 questions took
17.6 s of processor time and 10.3 s on the clock; side by side on a busy one it was 6 % less afterwards.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

from index import fill as fill_house
from rekindle.api.page import ask_planner, plan_grid
from rekindle.facts import load_facts
from rekindle.index.pages.grid import architectures, fill, questions
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import load_wheels
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.progress import Silent

GPUS = ("none", "sm_35", "sm_61", "sm_86", "sm_120", "gfx1031")
CHOOSE = """() => {
  const before = performance.now(), box = document.getElementById("gpu");
  box.focus(); box.value = "sm_86";
  box.dispatchEvent(new Event("input", {bubbles: true}));
  box.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
  return performance.now() - before;
}"""


def measure_planner() -> None:
    """Every card, system, CPU and Python, as ``index page`` asks for them."""
    began = time.perf_counter()
    grid = plan_grid(architectures(load_facts()), Silent())
    taken = time.perf_counter() - began
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    print(f"the planner's part: {taken:.1f} s, {workers:.1f} s CPU, {len(grid.answers)} different answers")


def main() -> None:
    measure_planner()
    wheels = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        house = Wheelhouse(Path(folder) / "house")
        fill_house(house, wheels, 1)
        rows = load_wheels(str(house.root))
        asks = [ask for ask in questions(GPUS) if ask.cpu == "" and ask.python == ""]
        grid = fill(GPUS, ((ask, ask_planner([ask])[0]) for ask in asks))
        began = time.process_time()
        text, _ = render_page(load_facts(), grid, rows, base="")
        print(f"{wheels} wheels: written in {time.process_time() - began:.2f} s CPU, {len(text) / 1e6:.1f} MB")
        page = Path(folder) / "index.html"
        page.write_text(text, encoding="utf-8")
        measure(page)


def measure(page: Path) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page()
        for turn in ("first", "second", "third"):
            opened.goto(page.as_uri())
            opened.wait_for_selector("html[data-ready=true]")
            print(f"  {turn} opening: can be used after {opened.evaluate('performance.now()') / 1000:.2f} s")
        print(f"  choosing a card: {opened.evaluate(CHOOSE) / 1000:.2f} s")
        browser.close()


if __name__ == "__main__":
    main()
