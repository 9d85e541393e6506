"""What others build on says what it is: every public definition of api/, model/ and compat/ has a docstring.

All of them, not most: ``help()`` is what users of the library read first, so there is no share that may be left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "rekindle"


def nameless(body: Sequence[ast.stmt], before: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield f"{before}{node.name}:{node.lineno}"
            if isinstance(node, ast.ClassDef):
                yield from nameless(node.body, f"{before}{node.name}.")


@pytest.mark.parametrize("room", ["api", "model", "compat"])
def test_every_public_definition_has_a_docstring(room: str) -> None:
    paths = sorted((SOURCE / room).rglob("*.py"))
    assert len(paths) > 3  # else the folder moved and the test looks at nothing
    assert [f"{path.name} {name}" for path in paths for name in nameless(ast.parse(path.read_text("utf-8")).body)] == []


def test_one_without_is_found() -> None:
    text = 'class A:\n    "x"\n    def f(self): pass\n    def _g(self): pass\ndef h():\n    "y"\n'
    assert list(nameless(ast.parse(text).body)) == ["A.f:3"]
