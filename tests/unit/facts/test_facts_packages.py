"""What a companion's wheel says now, against its row: agreement, drift, and what cannot be told."""

import subprocess
import sys
from pathlib import Path

import pytest

import facts_drift as drift
from rekindle.facts import load_facts
from rekindle.model.companion import CompanionPackageWheel

ROW = CompanionPackageWheel(
    package="xformers", version="0.0.30", torch="==2.7.0", pythons={"linux_x86_64": ("3.11",)},
    targets={"any": ("sm_60", "compute_80")}, source=("a test",), date="2026-11-16", how="measured",
)  # fmt: skip


@pytest.mark.parametrize(
    ("requires", "outcome"),
    [
        (["numpy", "torch==2.7.0"], "agrees"),
        (["torch (==2.7.0)"], "agrees"),
        (["torch ==2.7.1"], "drift"),
        (["numpy"], "skipped"),
        (["torch==9; extra == 'all'"], "skipped"),
        (["not a requirement at all", "torch==2.7.0"], "agrees"),
    ],
)
def test_torch_pin(requires: list[str], outcome: str) -> None:
    assert drift.torch_pin(ROW, requires).outcome == outcome


def test_code() -> None:
    assert drift.code(ROW, "linux_x86_64", ["compute_80", "sm_60"]).outcome == "agrees"
    assert drift.code(ROW, "linux_x86_64", ["sm_60"]).outcome == "drift"


def test_newest() -> None:
    facts = load_facts()
    last = facts.packages.package["xformers"].last
    assert drift.newest(facts, "xformers", ["0.0.1", last]).outcome == "agrees"
    assert drift.newest(facts, "xformers", [last, "99.0"]).outcome == "new"
    assert drift.newest(facts, "xformers", ["0.0.1"]).outcome == "drift"
    assert drift.newest(facts, "xformers", []).outcome == "skipped"


def test_the_guide_is_fresh() -> None:
    tool = Path(__file__).parents[3] / "tools" / "companions_table.py"
    assert subprocess.run([sys.executable, str(tool), "--check"], check=False).returncode == 0, f"run {tool.name}"
