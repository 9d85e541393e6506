"""One cell has bad luck (a full disk, a compiler that hangs, a directory of garbage); the others do not notice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from matrix_cluster import cli, orphans, states, wheels_of

import needs

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not os.environ.get("REKINDLE_LONG"), reason="minutes of building: REKINDLE_LONG=1"),
]
TABLE = """
project = "spark"
[axes]
python = ["3.11"]
variant = ["cpu"]
cpu = ["x86-64", "nehalem"]
[defaults]
prove = "none"
hang_minutes = 0.2
settings = { USE_HEAVY = "0", SPARK_OPS = "1" }
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "matrix.toml"
    file.write_text(TABLE, encoding="utf-8")
    assert cli("matrix", "plan", str(file)).returncode == 0
    return file


def run(table: Path) -> int:
    return cli("matrix", "run", str(table), "--slots", "1").returncode


def failures(table: Path) -> dict[str, list[str | None]]:
    found: dict[str, list[str | None]] = {}
    for state in states(table):
        attempts = state["attempts"]
        assert isinstance(attempts, list)
        found[str(state["id"])] = [attempt["failure"] for attempt in attempts]
    return found


@pytest.fixture
def small_disk(table: Path) -> Iterator[str]:
    """The first cell's tree lies on a disk of 24 MB; its id."""
    cells = json.loads((table.parent / "matrix.lock").read_text(encoding="utf-8"))["cells"]
    place = table.parent / "matrix-cells" / "trees" / cells[0]["tree"]
    place.mkdir(parents=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24M", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("needs the right to mount a small disk (root)")
    yield cells[0]["id"]
    subprocess.run(["umount", "-l", str(place)], check=False)


@needs.tool("mount", "umount")
def test_a_full_disk_stops_one_cell_and_the_next_run_builds_it(table: Path, small_disk: str) -> None:
    assert run(table) == 1
    found = failures(table)
    assert found.pop(small_disk) == ["disk"]
    assert list(found.values()) == [[None]]
    tree = next(each for each in (table.parent / "matrix-cells" / "trees").iterdir() if each.is_mount())
    subprocess.run(["umount", str(tree)], check=True)
    assert run(table) == 0
    assert failures(table)[small_disk] == ["disk", None]
    assert [len(each) for name, each in failures(table).items() if name != small_disk] == [1], "not built twice"


@needs.tool("g++")
def test_a_compiler_that_hangs_is_ended_and_the_cell_tried_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, flag = shutil.which("g++"), tmp_path / "hung"
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("g++", "c++"):
        wrapper = folder / name
        wrapper.write_text(
            f'#!/bin/sh\ncase "$*" in *checksum.cpp*) [ -e {flag} ] || {{ touch {flag}; sleep 3600; }};; esac\n'
            f'exec {real} "$@"\n'
        )
        wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    assert cli("matrix", "plan", str(table)).returncode == 0
    assert run(table) == 0
    assert sorted(map(str, failures(table).values())) == ["['hang', None]", "[None]"]
    assert orphans(tmp_path) == []


@pytest.mark.parametrize("rubbish", [b"", b"{", b"\xff" * 4096, b'{"stage": "proven"}'])
def test_a_corrupt_cell_is_built_again_and_the_other_is_not(table: Path, rubbish: bytes) -> None:
    assert run(table) == 0
    good = wheels_of(table)
    victim, other = sorted((table.parent / "matrix-cells" / "cells").iterdir())
    for name in ("state.json", "owner.json", "cell.json"):
        (victim / name).write_bytes(rubbish)
    before = (other / "state.json").read_bytes()
    assert run(table) == 0
    assert wheels_of(table) == good
    assert (other / "state.json").read_bytes() == before
