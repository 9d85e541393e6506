"""Writes tests/plans/golden again: the seed plans as text, and every profile's answer in a line."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "unit" / "plan")]


def main() -> int:
    from test_plan_profiles import summary  # type: ignore[import-not-found]
    from test_plan_seeds import GOLDEN, render, seed_plans  # type: ignore[import-not-found]

    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, plan in seed_plans().items():
        (GOLDEN / f"{name}.txt").write_text(render(plan), "utf-8")
    (GOLDEN / "profiles.tsv").write_text(summary(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
