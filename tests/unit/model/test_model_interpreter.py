"""An interpreter as it describes itself: its kind, its tags, and the version asked for."""

from __future__ import annotations

import pytest

from rekindle.model.interpreter import Interpreter, is_version, read_interpreter


def python(path: str, **more: object) -> Interpreter:
    return Interpreter(**{"path": path, "version": "3.11.7", "implementation": "CPython", **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (python("/home/a/.venv/bin/python", prefix="/home/a/.venv", base_prefix="/usr"), "venv"),
        (python("/usr/bin/python3", prefix="/usr", base_prefix="/usr"), "system"),
        (python("/bin/python3"), "system"),
        (python("/opt/conda/bin/python"), "conda"),
        (python("/home/a/miniforge3/bin/python"), "conda"),
        (python("/srv/py/bin/python", compiler="GCC 12 | packaged by conda-forge"), "conda"),
        (python("/home/a/.pyenv/versions/3.11.7/bin/python"), "pyenv"),
        (python("/home/a/.local/share/uv/python/cpython-3.11/bin/python3"), "uv"),
        (python(r"C:\Program Files\WindowsApps\PythonSoftwareFoundation.Python.3.11\python.exe"), "store"),
        (python(r"C:\Users\a\AppData\Local\Microsoft\WindowsApps\python3.exe"), "store"),
        (python(r"C:\x\PythonSoftwareFoundation.Python.3.11_qbz5n2kfra8p0\python.exe"), "store"),
        (python(r"C:\Python311\python.exe"), "python.org"),
        (python("/srv/python/bin/python3"), "local"),
    ],
)
def test_where_it_came_from(found: Interpreter, kind: str) -> None:
    assert found.kind == kind


def test_its_tags() -> None:
    assert (python("p").abi, python("p").tag, python("p").short) == ("cp311", "cp311", "3.11")
    free = python("p", version="3.13.0", gil_disabled=True)
    assert (free.abi, free.tag) == ("cp313t", "cp313t")
    assert python("p", implementation="PyPy").abi == "pp311"
    odd = python("p", implementation="GraalVM")
    assert (odd.abi, odd.tag) == (None, "py311")
    assert python("p", version="3").release == (3, 0)


@pytest.mark.parametrize(
    ("version", "fits"),
    [("3", True), ("3.1", False), ("3.11", True), ("3.11.7", True), ("3.11.70", False), ("3.11t", False), ("2", False)],
)
def test_the_version_that_was_asked_for(version: str, fits: bool) -> None:
    assert is_version(version) and python("p").is_of(version) is fits


@pytest.mark.parametrize("text", [None, "", "python3", "/usr/bin/python3.11", "3.11.7.1", "3.", "t", "3.11x", "v3.11"])
def test_anything_else_names_an_interpreter(text: str | None) -> None:
    assert is_version(text) is False


def test_only_one_without_the_global_lock_is_free_threaded() -> None:
    free = python("p", version="3.13.0", gil_disabled=True)
    assert [free.is_of(wish) for wish in ("3.13t", "3t", "3.13", "3.14t")] == [True, True, False, False]


def test_what_is_no_answer_says_why() -> None:
    assert read_interpreter("p", None) == "it said nothing a Python says"
    assert read_interpreter("p", {"error": "Exec format error"}) == "Exec format error"
    assert "makes no sense" in str(read_interpreter("p", {"version": "3.11", "bits": "many"}))
    for nonsense in (";h99", "9" * 30, "3." + "9" * 30, "three"):
        assert "makes no sense" in str(read_interpreter("p", {"version": nonsense}))
    found = read_interpreter("p", {"version": "3.11.7", "unknown": 1})
    assert isinstance(found, Interpreter) and found.path == "p"
