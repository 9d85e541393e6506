"""The library's front room: functions come when they are asked for, and a verb's file never takes its place."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle import api


def in_a_new_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_one_list_names_what_is_there() -> None:
    tree = ast.parse(Path(api.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    told = {
        alias.asname: node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    homes = vars(api)["_HOMES"]
    assert told == homes and sorted(homes) == vars(api)["__all__"] and len(homes) > 70
    assert all(getattr(api, name).__module__ == home for name, home in homes.items())


@pytest.mark.parametrize(
    "first", ["import rekindle.api.inspect_wheel", "from rekindle.api.plan_torch import find_machine", "pass"]
)
def test_a_verb_stays_a_function_whoever_imported_its_file(first: str) -> None:
    code = (
        f"{first}\nfrom rekindle import api\nprint(callable(api.inspect), callable(api.plan), api.inspect.__module__)"
    )
    assert in_a_new_python(code) == "True True rekindle.api.inspect_wheel"


def test_no_file_has_the_name_of_a_function() -> None:
    files = {path.stem for path in Path(api.__file__).parent.glob("*.py")}
    assert len(files) > 20 and not files & set(vars(api)["_HOMES"])


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = api.nonsense  # type: ignore[attr-defined]
    assert "inspect" in dir(api)


def test_a_test_may_still_replace_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "holds_wheels", lambda target: target == "x")
    assert api.holds_wheels("x")


def test_reading_a_library_imports_neither_numpy_nor_what_reads_archives() -> None:
    code = (
        "import sys\nfrom rekindle.cli.main import main\n"
        "main(['inspect', '--no-cpu', '-q', sys.executable])\n"
        "print([n for n in ('numpy', 'zipfile', 'email.parser', 'logging', 'archspec') if n in sys.modules],"
        " 'rekindle.journey.matrix' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1] == "[] False", done.stderr
