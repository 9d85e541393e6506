"""The house as drawn in CONTRIBUTING is the house as built, and no import goes in a circle."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# These run in another Python than ours, or are a miniature project of their own.
FOREIGN = ("rekindle/spark/tree", "rekindle/verify/checks", "rekindle/host/questions")


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE)
        if not inside.as_posix().startswith(FOREIGN):
            found[".".join(inside.with_suffix("").parts).removesuffix(".__init__")] = path
    return found


def imported(text: str, known: Mapping[str, object], name: str) -> set[str]:
    """Every module of ours that this one names: at its head, inside functions, and for the type checker."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                found |= {full} if full in known else {node.module} & set(known)
    return found - {name}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that can each be reached from the other."""

    def reachable(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            one = waiting.pop()
            if one not in seen:
                seen.add(one)
                waiting += graph[one]
        return seen

    reach = {name: reachable(name) for name in graph}
    groups = {tuple(sorted({name} | {other for other in reach[name] if name in reach[other]})) for name in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def test_no_import_goes_in_a_circle() -> None:
    known = modules()
    graph = {name: imported(path.read_text("utf-8"), known, name) for name, path in known.items()}
    assert len(graph) > 300
    assert circles(graph) == []


def test_a_circle_would_be_found() -> None:
    texts = {
        "a": "import b",
        "b": "def f():\n    from c import x",
        "c": "if TYPE_CHECKING:\n    import a",
        "d": "import a",
    }
    graph = {name: imported(text, texts, name) for name, text in texts.items()}
    assert circles(graph) == [["a", "b", "c"]]


def drawn() -> list[set[str]]:
    """The layers of the drawing in CONTRIBUTING, from top to bottom: each line's names before its explanation."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    drawing = re.search(r"## The house\n.*?```\n(.*?)```", text, re.DOTALL)
    assert drawing is not None
    layers = []
    for line in drawing[1].splitlines():
        names = re.split(r" {3,}", line)[0]
        layers.append({word.strip("/").removesuffix(".py") for word in re.split(r"[ |]+", names) if word})
    return layers


def enforced() -> list[set[str]]:
    """The layers of the contract; a room in parentheses need not be there yet."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    present = ([word.strip() for word in layer.split("|") if "(" not in word] for layer in layers)
    return [set(names) for names in present if names]


def rooms() -> Iterator[str]:
    for path in (SOURCE / "rekindle").iterdir():
        if path.is_dir() and any(path.glob("*.py")):
            yield path.name


def test_the_drawing_is_what_is_enforced() -> None:
    assert drawn() == enforced()


def test_every_room_is_drawn_and_every_drawn_room_is_there() -> None:
    assert set().union(*drawn()) - {"errors"} == set(rooms()) - {"spark"}
    assert (SOURCE / "rekindle" / "errors.py").is_file()


def test_unit_tests_mirror_the_rooms() -> None:
    assert {
        path.name for path in (ROOT / "tests" / "unit").iterdir() if path.is_dir() and any(path.glob("test_*.py"))
    } <= set(rooms())
