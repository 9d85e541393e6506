"""Small cells for the matrix's tests."""

from __future__ import annotations

from rekindle.model.matrix import Cell
from rekindle.model.plan import BuildRecipe, Plan


def plan(**env: str) -> Plan:
    recipe = BuildRecipe(source="spark", env=env, patches=("b", "a"))
    return Plan(answer="build", project="spark", variant="cpu", python="3.11", build=recipe)


def cell(number: int, *, tree: int | None = None, minutes: float = 10.0, **more: object) -> Cell:
    values: dict[str, object] = {
        "id": f"{number:016x}",
        "name": f"cell-{number}",
        "project": "spark",
        "axes": {"python": "3.11"},
        "plan": plan(),
        "tree": f"{number if tree is None else tree:016x}",
        "source": "spark",
        "identity": "spark 1",
        "system": "linux-x86_64",
        "python": "3.11",
        "minutes": minutes,
        **more,
    }
    return Cell(**values)  # type: ignore[arg-type]
