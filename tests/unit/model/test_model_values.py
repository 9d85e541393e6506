"""Small answers that values give about themselves."""

from __future__ import annotations

import typing

import pytest

from rekindle.model.diagnosis import readable
from rekindle.model.farm import FarmCounts
from rekindle.model.interpreter import Interpreter
from rekindle.model.pack import Pack, PackCheck
from rekindle.model.source import AppliedPatch, PatchState, SourceTree


@pytest.mark.parametrize(
    ("path", "prefix", "kind"),
    [
        ("/home/ann/.pyenv/versions/3.11.7/bin/python", "/home/ann/.pyenv/versions/3.11.7", "pyenv"),
        ("/opt/pyenv/versions/3.11.7/bin/python", "/opt/pyenv/versions/3.11.7", "pyenv"),
        ("/home/ann/miniforge3/bin/python", "/home/ann/miniforge3", "conda"),
        ("/home/ann/.local/share/uv/python/cpython-3.12/bin/python", "/home/ann/.local/share/uv/python/x", "uv"),
        (r"C:\Program Files\WindowsApps\PythonSoftwareFoundation.Python.3.12\python.exe", r"C:\Program Files", "store"),
        ("/usr/bin/python3", "/usr", "system"),
        (r"C:\Python312\python.exe", r"C:\Python312", "python.org"),
        ("/opt/python/bin/python3", "/opt/python", "local"),
    ],
)
def test_where_a_python_came_from(path: str, prefix: str, kind: str) -> None:
    assert Interpreter(path=path, version="3.11.7", prefix=prefix, base_prefix=prefix).kind == kind
    assert Interpreter(path=path, version="3.11.7", prefix="/x/env", base_prefix=prefix).kind == "venv"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("no code for {arch|this card}", "no code for this card"),
        ("no code for {gpu_arch}", "no code for <gpu arch>"),
        ("It stopped {why_sentence}.", "It stopped."),
        ("{arch|}, and so on", ", and so on"),
        ("plain", "plain"),
    ],
)
def test_a_template_reads_without_its_placeholders(template: str, text: str) -> None:
    assert readable(template) == text


def test_which_patches_are_in_the_tree() -> None:
    states = {
        state: bool(
            SourceTree(project="torch", version="1", root="", patches=(AppliedPatch(id="x", state=state),)).patched
        )
        for state in typing.get_args(PatchState)
    }
    assert {state for state, there in states.items() if there} == {"applied", "already"} and len(states) > 2


def test_what_nobody_counted_is_nothing() -> None:
    counts = FarmCounts()
    assert (counts.compiled, counts.returned, counts.failed, counts.elsewhere) == (0, 0, 0, 0)
    checked = PackCheck(folder="x", good=False)
    assert (checked.files, checked.bytes, checked.problems, checked.signed) == (0, 0, (), None)
    assert Pack(title="torch", python="3.12", system="linux", arch="x86_64").bytes == 0
