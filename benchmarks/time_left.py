"""How far the time left that a build shows is from the truth: real builds, replayed from the pages in docs/evidence.

    python benchmarks/time_left.py [--write]

Each page holds the start and end of every step of a whole torch. The replay tells the estimate what Ninja told the
build then, in that order, and asks at 20, 30 ... 90 % of the whole time, as in a first build on that machine. What the
estimate knows of files by name comes from the pages of *other* releases alone (and, for comparison, from none). A page
names files without folders and no dependencies: the longest chain of steps is therefore not part of it.

``--write`` renews src/rekindle/build/usual_seconds.toml from all pages; rows for files that no page has stay.
"""

from __future__ import annotations

import re
import statistics
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rekindle.build.history import Estimate, History, ObjectCosts
from rekindle.formats.ninja import BuildEdge, file_name

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "docs/evidence"
TABLE = ROOT / "src/rekindle/build/usual_seconds.toml"
STEP = re.compile(r'<rect class="\w+" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="12"><title>([^<:]+): ([^<]*)<')
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Step:
    """One step of the build: its name with a number that makes it unique, and when it ran."""

    name: str
    begun: float
    ended: float


def read_seconds(text: str) -> float:
    """A duration as the report writes it: ``1 h 05 min``, ``3 min 30 s``, ``4.8 s``."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+) (ms|s|min|h)\b", text))


def read_steps(page: str) -> list[Step]:
    """The steps of a report's time line, in the order in which they ended."""
    found = [(float(x), float(width), name, read_seconds(took)) for x, _, width, name, took in STEP.findall(page)]
    # The widest bars give the scale best: their lengths and times are rounded least.
    long = sorted(found, key=lambda step: step[3])[-20:]
    scale = sum(step[3] for step in long) / sum(step[1] for step in long)
    steps = [
        Step(f"{number}/{name}", x * scale, x * scale + seconds) for number, (x, _, name, seconds) in enumerate(found)
    ]
    return sorted(steps, key=lambda step: step.ended)


class UsualSeconds(ObjectCosts):
    """What the pages of other releases say, instead of the table that holds this one too."""

    def __init__(self, seconds: dict[str, float]) -> None:
        super().__init__(History())
        self._seconds = seconds

    def usual(self, output: str) -> float | None:
        return self._seconds.get(file_name(output).removesuffix(".o"))


def mean_seconds(builds: Iterable[list[Step]]) -> dict[str, float]:
    """Seconds of each file name: the mean of all files of that name in all builds."""
    every: dict[str, list[float]] = {}
    for steps in builds:
        for step in steps:
            every.setdefault(file_name(step.name).removesuffix(".o"), []).append(step.ended - step.begun)
    return {name: statistics.fmean(seconds) for name, seconds in every.items()}


def replay(steps: list[Step], jobs: int, known: dict[str, float]) -> list[tuple[int, float, float]]:
    """Percent of the whole, seconds the estimate gives then, seconds it really took."""
    edges = [BuildEdge(rule="compile", outputs=(step.name,), inputs=()) for step in steps]
    estimate = Estimate(edges, UsualSeconds(known), {})
    whole = max(step.ended for step in steps)
    asked = [whole * percent / 100 for percent in range(20, 100, 10)]
    rows: list[tuple[int, float, float]] = []
    for number, step in enumerate(steps):
        while asked and step.ended > asked[0]:
            at = asked.pop(0)
            left = estimate.left(jobs=jobs, steps_left=len(steps) - number, elapsed=at - steps[0].ended)
            rows.append((round(100 * at / whole), left, whole - at))
        estimate.finished(step.name)
    return rows


def write_table(builds: Iterable[list[Step]]) -> None:
    """Builds on one kind of machine alone: seconds of two kinds would not be of one scale."""
    before = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    seconds = before["seconds"] | {name: round(took, 1) for name, took in mean_seconds(builds).items() if took >= 1}
    rows = "".join(f'"{name}" = {took:g}\n' for name, took in sorted(seconds.items()))
    head = "".join(
        line for line in TABLE.read_text(encoding="utf-8").splitlines(keepends=True) if not line.startswith('"')
    )
    TABLE.write_text(head + rows, encoding="utf-8")


def main() -> None:
    pages = {page.name: page.read_text("utf-8") for page in sorted(EVIDENCE.glob("torch-*-report.html"))}
    builds = {name: read_steps(text) for name, text in pages.items()}
    if "--write" in sys.argv:
        write_table(steps for name, steps in builds.items() if "cuda" in name)
        return
    for name, steps in builds.items():
        jobs = len({row for _, row, *_ in STEP.findall(pages[name])})
        release = name.split("-")[1]
        others = mean_seconds(them for other, them in builds.items() if other.split("-")[1] != release)
        print(f"{name}: {len(steps)} steps, {jobs} at once, {steps[-1].ended / 60:.1f} minutes")
        informed, blind = replay(steps, jobs, others), replay(steps, jobs, {})
        for (percent, left, truth), (_, alone, _) in zip(informed, blind, strict=True):
            said = f"{left / 60:5.1f} ({100 * (left / truth - 1):+.0f} %)"
            without = f"{alone / 60:5.1f} ({100 * (alone / truth - 1):+.0f} %)"
            print(f"  at {percent} %: {truth / 60:5.1f} min left; said {said}, without the table {without}")


if __name__ == "__main__":
    main()
