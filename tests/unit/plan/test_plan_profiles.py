"""Every machine profile has an answer, and a changed answer shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.plan.describe import machine_profile
from rekindle.plan.rules import RULES
from rekindle.plan.solve import make_plan

RULES_PAGE = Path(__file__).parents[3] / "docs" / "rules.md"
GOLDEN = Path(__file__).parents[2] / "plans" / "golden" / "profiles.tsv"


def summary() -> str:
    facts = load_facts()
    lines = []
    for name in facts.machines.machine:
        plan = make_plan(*machine_profile(name, facts), facts)
        kit = plan.cuda or plan.rocm or "-"
        fields = (
            name,
            plan.answer,
            plan.torch or "-",
            plan.variant or "-",
            kit,
            plan.python or "-",
            str(plan.as_asked),
        )
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


def rules_page() -> str:
    """The rules as documentation: their own words."""
    lines = ["# The planner's rules", "", "Made by tools/golden_plans.py from the rules themselves.", ""]
    lines += ["| rule | for | what must hold |", "|---|---|---|"]
    for number, rule in sorted(RULES.items()):
        lines.append(f"| {number} | {', '.join(rule.applies)} | {rule.title} |")
    return "\n".join(lines) + "\n"


def test_the_rules_page_is_fresh() -> None:
    assert RULES_PAGE.read_text("utf-8") == rules_page(), "run tools/golden_plans.py"


def test_every_profile_is_answered_as_kept() -> None:
    assert summary() == GOLDEN.read_text("utf-8"), "run tools/golden_plans.py and read the difference"


def test_there_are_the_seeds_and_ten_more() -> None:
    assert len(load_facts().machines.machine) >= 15


def test_a_misspelt_profile_names_the_nearest() -> None:
    with pytest.raises(BadInput) as caught:
        machine_profile("k40-windows", load_facts())
    assert "k40c-windows" in (caught.value.remedy or "")
