"""How much one has to read: what one answer runs through, and names that mean several things."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "rekindle"
MODULES_OF_ONE_PLAN = 50
REUSED_CLASS_NAMES = 5
# Counts the modules of which any function or class body runs; one that is only imported costs a reader nothing.
COUNT = """
import contextlib, io, sys
seen = set()
def note(frame, event, arg):
    name = frame.f_globals.get("__name__", "")
    if event == "call" and frame.f_code.co_name != "<module>" and name.startswith("rekindle"):
        seen.add(name)
from rekindle.cli.main import main
sys.setprofile(note)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(["plan", "--gpu", "GTX 1080"])
sys.setprofile(None)
print("\\n".join(sorted(seen)))
"""


def test_a_plan_for_one_card_runs_through_few_modules() -> None:
    done = subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, check=True, timeout=120)
    seen = done.stdout.split()
    assert "rekindle.plan.solve" in seen
    assert len(seen) <= MODULES_OF_ONE_PLAN, seen


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    reused = sorted(name for name, count in names.items() if count > 1)
    assert len(reused) <= REUSED_CLASS_NAMES, reused
