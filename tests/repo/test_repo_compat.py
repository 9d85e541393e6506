"""What runs where is known in one room: nobody else reads the tables of it, or keeps numbers of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rekindle"
# compat/ judges; model/ and facts/ define and hold; formats/ reads numbers out of files.
ROOMS_THAT_MAY = ("compat", "model", "facts")
JUDGES = {"sass_runs_on", "amd_runs"}
COLUMNS = {
    "driver_linux", "driver_windows", "minor_driver_linux", "minor_driver_windows", "driver_end", "next_branch",
    "sm_alone", "sm_same", "sm_feature", "math_gap", "gcc_max", "clang_max", "clang_min", "msvc_below", "msvc_from",
    "manylinux",
}  # fmt: skip
DRIVER = re.compile(r"\b[3-6]\d\d\.\d\d(?:\.\d\d)?\b")
# Not knowledge of what runs where, each with its reason.
ALLOWED = {
    "explain/conditions.py": "an architecture as the age of a log, which decides how to read it",
}


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.relative_to(SOURCE).parts[0] not in ROOMS_THAT_MAY)


def docstrings(tree: ast.AST) -> set[int]:
    """The lines of all docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def offences(text: str) -> Iterator[str]:
    """What a module knows that it should ask for."""
    tree = ast.parse(text)
    silent = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"imports {alias.name}" for alias in node.names if alias.name in JUDGES)
        elif isinstance(node, ast.Attribute) and node.attr in JUDGES | COLUMNS:
            yield f"line {node.lineno} reads .{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Sm", "Gfx"):
            if node.args and all(isinstance(arg, ast.Constant) for arg in node.args):
                yield f"line {node.lineno} has an architecture of its own: {ast.unparse(node)}"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.lineno not in silent
            and DRIVER.search(node.value)
        ):
            yield f"line {node.lineno} has a driver of its own: {node.value!r}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_nobody_else_knows_what_runs_where(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    found = list(offences(path.read_text("utf-8")))
    if name in ALLOWED:
        assert found, f"{name} needs no exception any more"
        return
    assert not found, f"{name} {'; '.join(found)}: ask rekindle.compat instead"


@pytest.mark.parametrize(
    "text",
    [
        "from rekindle.compat.toolkit import sass_runs_on",
        "x = images.amd_runs(a, b, facts)",
        "x = row.minor_driver_linux",
        "x = row.gcc_max",
        "OLDEST = Sm(3, 5)",
        'FLOOR = "525.60.13"',
        'def f():\n    return f"needs 450.80.02 or newer than {x}"',
    ],
)
def test_an_offence_is_noticed(text: str) -> None:
    assert list(offences(text))


@pytest.mark.parametrize(
    "text", ['"""470.256.02 in a docstring."""', 'x = Sm(int(a), int(b))', 'x = "2.7.1"', "x = row.driver_source"]
)  # fmt: skip
def test_what_is_no_offence(text: str) -> None:
    assert not list(offences(text))


def test_the_room_touches_no_machine() -> None:
    """What is asked of compat/ is answered from values and facts; looking at a machine is host/'s."""
    for path in sorted((SOURCE / "compat").rglob("*.py")):
        text = path.read_text("utf-8")
        found = re.findall(r"^\s*(?:from|import) (rekindle\.host\S*|subprocess|socket|shutil|os)\b", text, re.M)
        assert not found, f"{path.name} imports {found}"
