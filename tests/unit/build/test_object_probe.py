"""Objects compiled by a tree's own commands: which, what they cost, what stopped them, and that a run goes on."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

import needs

_SPEC = importlib.util.spec_from_file_location("object_probe", Path(__file__).parents[3] / "tools" / "object_probe.py")
assert _SPEC is not None and _SPEC.loader is not None
PROBE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(PROBE)

NINJA = """
build caffe2/x/torch_hip_generated_Abs.hip.o: CUSTOM_COMMAND Abs.hip
  COMMAND = echo once >> abs.txt && touch abs.o
build caffe2/x/torch_hip_generated_NotAbs.hip.o: CUSTOM_COMMAND NotAbs.hip
  COMMAND = false
build c10/Sort.hip.o: CUSTOM_COMMAND Sort.hip
  COMMAND = echo "a note" && echo "Sort.hip:3:1: error: no such thing" && exit 7
build c10/plain.cpp.o: CXX plain.cpp
  FLAGS = -O2
"""


@pytest.fixture
def build(tmp_path: Path) -> Path:
    (tmp_path / "build.ninja").write_text(NINJA)
    return tmp_path


def test_a_name_is_the_objects_own_in_the_order_asked(build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = [output for output, _ in PROBE.commands(build, ["Sort.hip.o", "Abs.hip.o", "Gone.hip.o", "plain.cpp.o"])]
    assert found == ["c10/Sort.hip.o", "caffe2/x/torch_hip_generated_Abs.hip.o"]
    assert capsys.readouterr().err.splitlines() == ["no command makes Gone.hip.o", "no command makes plain.cpp.o"]


@needs.tool("sh")
def test_each_is_compiled_once_and_accounted_for(build: Path) -> None:
    out = build / "probe.jsonl"
    asked = [str(build), "--out", str(out), "Abs.hip.o", "Sort.hip.o"]
    assert PROBE.main(asked) == 1
    good, bad = [json.loads(line) for line in out.read_text().splitlines()]
    assert good["exit"] == 0 and good["error"] is None and good["cpu_seconds"] >= 0 and good["gib"] >= 0
    assert bad["exit"] == 7 and bad["error"] == "Sort.hip:3:1: error: no such thing"
    assert PROBE.main(asked) == 0, "what is in the file is not done again"
    assert (build / "abs.txt").read_text().split() == ["once"]


def test_none_is_started_after_the_time_given(build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert PROBE.main([str(build), "--until", "00:00", "Abs.hip.o"]) == 0
    assert not (build / "abs.txt").exists() and capsys.readouterr().out == ""
