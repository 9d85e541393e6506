"""What `inspect` says of a wheel's CPU code, held against the wheel running on emulated CPUs.

A few small wheels in every run; the whole table (tests/truth/cpu_wheels.toml) where REKINDLE_LONG=1, since it installs
gigabytes and takes an hour.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import needs
from rekindle.compat.processor import missing
from rekindle.inspect.reader import DirectorySource
from rekindle.inspect.survey import inspect_source
from rekindle.model.progress import Silent
from rekindle.model.wheel import IsaUse, WheelCpu

ROOT = Path(__file__).parents[2]
TRUTH = ROOT / "tests" / "truth"
EVERY_TIME = ("zstandard", "blake3", "isal")
LONG = os.environ.get("REKINDLE_LONG") == "1"


@functools.cache
def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_under_test", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(file: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((TRUTH / file).read_text("utf-8"))["wheel"]
    return found


def name(row: dict[str, Any]) -> str:
    return str(row["spec"]).split("==")[0]


SMOKES = {name(row): row for row in rows("cpu_smokes.toml")}
TRIED = [row for row in rows("cpu_wheels.toml") if LONG or name(row) in EVERY_TIME]


def test_the_table_is_large_enough_and_each_row_can_be_repeated() -> None:
    table = rows("cpu_wheels.toml")
    assert len(table) >= 25
    assert {name(row) for row in table} <= SMOKES.keys()
    order = tool("cpu_oracle").CPUS
    for row in table:
        # Oldest first, and the first that runs ends the search.
        assert list(row["tried"]) == list(order[: len(row["tried"])])
        assert list(row["tried"].values()) == ["crash"] * (len(row["tried"]) - 1) + ["ok"], row["spec"]


@pytest.mark.integration
@needs.tool("qemu-x86_64")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the Python that is emulated must be for x86-64")
@pytest.mark.parametrize("row", TRIED, ids=lambda row: row["spec"])
def test_a_verdict_agrees_with_emulated_cpus(row: dict[str, Any], tmp_path: Path) -> None:
    oracle, compare = tool("cpu_oracle"), tool("cpu_compare")
    smoke = SMOKES[name(row)]
    try:
        oracle.install({**smoke, "spec": row["spec"]}, tmp_path)
    except subprocess.CalledProcessError:
        pytest.skip(f"{row['spec']} cannot be had here")
    for cpu, seen in row["tried"].items():
        assert oracle.emulate(cpu, tmp_path, smoke["smoke"])[0] == seen, cpu
    source = DirectorySource(tmp_path, folders=compare.folders_of(tmp_path, row["spec"]))
    cpu = inspect_source(source, progress=Silent()).cpu
    assert compare.judged(cpu, row["tried"]) in ("right", "in part", "cannot tell", "no code")


def test_what_counts_as_wrong() -> None:
    judged = tool("cpu_compare").judged
    tried = {"core2duo": "crash", "Nehalem": "ok"}
    assert judged(WheelCpu(functions=9, required=("sse4.2",), runs_from="x86-64-v2"), tried) == "right"
    assert judged(WheelCpu(functions=9, required=(), runs_from="x86-64"), tried) == "too old"
    corner = IsaUse(isa="popcnt", functions=1)
    assert judged(WheelCpu(functions=9, runs_from="x86-64", unconditional=(corner,)), tried) == "in part"
    assert judged(WheelCpu(functions=9, required=("avx",), runs_from="sandybridge"), tried) == "too new"
    assert judged(WheelCpu(functions=9, required=("avx",), at_least="sandybridge"), tried) == "too new"
    assert judged(WheelCpu(functions=9, required=(), at_least="x86-64"), tried) == "cannot tell"
    assert missing(("sse4.2",), {"sse4_2"}) == []
