"""The suite proves that it runs: every test file is collected, and every test can fail."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
HELPERS = {path.stem for path in TESTS.rglob("*.py") if not path.name.startswith("test_")}


def files_of_tests() -> list[Path]:
    return [path for path in sorted(TESTS.rglob("test_*.py")) if "trees" not in path.relative_to(TESTS).parts]


def test_every_test_file_is_collected(collected: frozenset[Path] | None) -> None:
    """A run of everything has just found them; one of this file alone asks pytest."""
    assert sorted(files_of_tests()) == sorted(found_by_pytest() if collected is None else collected)


def found_by_pytest() -> set[Path]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(TESTS)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-3000:]
    return {ROOT / line.split("::")[0] for line in ran.stdout.splitlines() if "::" in line}


def test_every_test_can_fail() -> None:
    assert [name for path in files_of_tests() for name in silent_tests(path.read_text("utf-8"), path.name)] == []


def test_a_test_that_asserts_nothing_is_found() -> None:
    text = "def test_a(): work()\ndef test_b(): assert work()\ndef test_c(): check()\ndef check(): assert 1\n"
    assert silent_tests(text, "x.py") == ["x.py:1 test_a"]


def test_no_two_test_files_share_a_name() -> None:
    """pytest imports them by name alone: the second would stop every run that collects both."""
    names = Counter(path.name for path in files_of_tests())
    assert [name for name, count in names.items() if count > 1] == []


def test_the_tests_that_run_under_windows_exist() -> None:
    """They run where wine does, so a file that moved would be missed only there."""
    text = (ROOT / "tests/integration/test_windows_python.py").read_text(encoding="utf-8")
    named = re.findall(r'"(\w+/test_\w+\.py)"', text)
    assert len(named) > 3 and [name for name in named if not (ROOT / "tests/unit" / name).is_file()] == []


def silent_tests(text: str, name: str) -> list[str]:
    """Tests in which nothing asserts: not themselves, nor a function of the same file they call, nor a helper."""
    tree = ast.parse(text)
    shared = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in HELPERS
        for alias in node.names
    }
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

    def asserts(node: ast.FunctionDef, seen: frozenset[str]) -> bool:
        for each in ast.walk(node):
            if isinstance(each, ast.Assert):
                return True
            if isinstance(each, ast.Call):
                called = each.func.id if isinstance(each.func, ast.Name) else ""
                if isinstance(each.func, ast.Attribute) and each.func.attr in ("raises", "fail"):
                    return True
                if called in shared:
                    return True
                if called in functions and called not in seen and asserts(functions[called], seen | {called}):
                    return True
        return False

    tests = [node for node in functions.values() if node.name.startswith("test_")]
    return [f"{name}:{node.lineno} {node.name}" for node in tests if not asserts(node, frozenset({node.name}))]
