"""Files that are carried to machines with an older Python: nothing in them is read there that it does not know."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rekindle
from rekindle.scripts import containers

ROOT = Path(rekindle.__file__).parent
CARRIED = ["scripts/pack_install.py", *(name for name in containers._INSPECTOR_FILES if name.endswith(".py"))]


@pytest.mark.parametrize("name", CARRIED)
def test_annotations_that_python_3_8_cannot_read_are_put_off(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"), feature_version=(3, 8))
    put_off = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    arguments = [node.annotation for node in ast.walk(tree) if isinstance(node, ast.arg | ast.AnnAssign)]
    answers = [node.returns for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    said = [inner for note in (*arguments, *answers) if note is not None for inner in ast.walk(note)]
    new = [node for node in said if isinstance(node, ast.BinOp | ast.Subscript)]
    assert put_off or not new, f"line {new[0].lineno} is read when {name} is loaded"
