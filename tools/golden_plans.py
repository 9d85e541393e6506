"""Writes again what is made from the tables and rules: tests/plans/golden and docs/rules.md."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "unit" / "plan")]


def main() -> int:
    if sys.argv[1:]:
        sys.exit("no options: it writes; tests/unit/plan/test_plan_seeds.py says whether plans are stale")
    from test_plan_profiles import rules_page, summary
    from test_plan_seeds import GOLDEN, render, seed_plans

    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, plan in seed_plans().items():
        (GOLDEN / f"{name}.txt").write_text(render(plan), "utf-8")
    (GOLDEN / "profiles.tsv").write_text(summary(), "utf-8")
    (ROOT / "docs" / "rules.md").write_text(rules_page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
