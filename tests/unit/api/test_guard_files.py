"""``guard`` without an installer: which packages count, where what was meant is kept, and the line that restores it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle import api
from rekindle.api.guard_torch import read_constraints
from rekindle.errors import BadInput
from rekindle.model.guard import PackageRecord

guarding: Any = importlib.import_module("rekindle.api.guard_torch")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[PackageRecord]:
    """What the interpreter has."""
    records = [
        PackageRecord(name="Torch", version="2.6.0+cu124", contents="abc"),
        PackageRecord(name="torchvision", version="0.21.0"),
        PackageRecord(name="numpy", version="2.0"),
    ]
    monkeypatch.setattr(guarding, "ask_contents", lambda host, exe, digests: SimpleNamespace(packages=records))
    monkeypatch.setattr(guarding, "ask_interpreter", lambda host, exe: SimpleNamespace(prefix=str(tmp_path / "env")))
    return records


def test_what_is_there_is_recorded_in_its_environment_and_then_meant(
    installed: list[PackageRecord], tmp_path: Path
) -> None:
    found = {"torch": "2.6.0+cu124", "torchvision": "0.21.0"}
    place = tmp_path / "env" / "rekindle" / "constraints.txt"
    before = api.guard()
    assert (before.kept, before.found, before.python, before.written) == (None, found, sys.executable, False)
    noted = api.guard(python="py", record=True)
    assert (noted.kept, noted.expected, noted.found, noted.written) == (str(place), found, found, True)
    after = api.guard(python="py")
    assert (after.kept, after.expected, after.python, after.written) == (str(place), found, "py", False)
    assert after.good and read_constraints(place) == (found, {"torch": "abc", "torchvision": ""})
    installed[1] = PackageRecord(name="torchvision", version="0.22.0")
    assert [(one.name, one.was, one.now) for one in api.guard().replaced] == [("torchvision", "0.21.0", "0.22.0")]
    with pytest.raises(BadInput, match="there is no"):
        api.guard(keep=tmp_path / "none.txt")
    del installed[0]
    with pytest.raises(BadInput, match="has no torch"):
        api.guard(record=True)


@pytest.mark.parametrize(
    ("pin", "index"),
    [("2.6.0+cu124", "whl/cu124"), ("2.6.0+cpu", "whl/cpu"), ("2.6.0", None), ("2.6.0+mine", None)],
)
def test_what_restores_it_names_the_index_of_its_build(
    pin: str, index: str | None, installed: list[PackageRecord], tmp_path: Path
) -> None:
    keep = tmp_path / "pins.txt"
    keep.write_text(f"torch=={pin}\ntorchvision==0.20.0\n", encoding="utf-8")
    installed[0] = PackageRecord(name="torch", version="2.9.1")
    lines = [one.restore for one in api.guard(python="py", keep=keep).replaced]
    for (line,), pinned in zip(lines, (f"torch=={pin}", "torchvision==0.20.0"), strict=True):
        assert line.startswith("py -m pip install --force-reinstall --no-deps ") and pinned in line
        assert ("--index-url" in line) is (index is not None) and (index or "") in line


def test_of_a_file_of_constraints_the_pins_count(tmp_path: Path) -> None:
    keep = tmp_path / "pins.txt"
    keep.write_text("# torch==1.0\n torch == 2.6.0  # contents=abc\nnumpy>=2\n\ntriton==3.2.0\n", encoding="utf-8")
    pins, contents = read_constraints(keep)
    assert pins == {"torch": "2.6.0", "triton": "3.2.0"} and set(contents) == set(pins)
    keep.write_bytes(b"torch==\xff")
    with pytest.raises(BadInput, match="cannot read"):
        read_constraints(keep)
