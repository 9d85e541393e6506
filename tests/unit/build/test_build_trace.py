"""The time line of a build: every event is one that Perfetto and Chrome read, and stands where it happened."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rekindle.build.report import TimedSpan, join_traces, write_trace

BEGAN = 1_700_000_000.0
SPANS = [
    TimedSpan(name="configure", begun=BEGAN, seconds=10.0),
    TimedSpan(name="compile", begun=BEGAN + 10, seconds=30),
]


def ninja_tree(folder: Path, *steps: tuple[int, int, str, float]) -> Path:
    """Steps as (start, end, output) in milliseconds, and when the run began."""
    lines = ["# ninja log v6"]
    for start, end, name, run in steps:
        (folder / name).write_bytes(b"")
        os.utime(folder / name, (run + end / 1000, run + end / 1000))
        lines.append(f"{start}\t{end}\t0\t{name}\t{name}")
    (folder / ".ninja_log").write_text("\n".join(lines) + "\n")
    return folder


def validated(path: Path) -> list[dict[str, Any]]:
    """The events, each held against the format's description (trace event format, JSON object form)."""
    trace = json.loads(path.read_bytes())
    assert trace["displayTimeUnit"] in ("ms", "ns")
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["name"], str) and isinstance(event["args"], dict)
        assert all(type(event[field]) is int for field in ("pid", "tid", "ts"))
        if event["ph"] == "X":
            assert type(event["dur"]) is int and event["dur"] >= 0 and event["ts"] > 0 and isinstance(event["cat"], str)
        else:
            assert event["name"] == "process_name" and isinstance(event["args"]["name"], str)
    return list(trace["traceEvents"])


def test_phases_and_steps_stand_where_they_happened(tmp_path: Path) -> None:
    run = BEGAN + 12
    tree = ninja_tree(tmp_path, (0, 4000, "a.cpp.o", run), (1000, 6000, "k.cu.o", run), (4500, 9000, "lib.so", run))
    write_trace(tmp_path / "t.json", "spark 0.3", SPANS, tree, {"a.cpp.o": "attic"})
    events = validated(tmp_path / "t.json")
    seconds = {e["name"]: (e["ts"] / 1e6 - BEGAN, e["dur"] / 1e6, e["tid"], e["cat"]) for e in events if e["ph"] == "X"}
    assert seconds == {
        "configure": (0, 10, 1, "phase"),
        "compile": (10, 30, 1, "phase"),
        "a.cpp.o": (pytest.approx(12), 4, 1, "cxx"),
        "k.cu.o": (pytest.approx(13), 5, 2, "gpu"),
        "lib.so": (pytest.approx(16.5), 4.5, 1, "link"),
    }
    told = {e["name"]: e["args"] for e in events}
    assert told["a.cpp.o"] == {"output": "a.cpp.o", "where": "attic"} and told["k.cu.o"] == {"output": "k.cu.o"}
    assert {e["args"]["name"]: e["pid"] for e in events if e["ph"] == "M"} == {"spark 0.3": 1, "Ninja": 2}


def test_what_was_compiled_before_is_left_out(tmp_path: Path) -> None:
    tree = ninja_tree(tmp_path, (0, 9000, "old.o", BEGAN - 500), (0, 2000, "new.o", BEGAN + 11))
    write_trace(tmp_path / "t.json", "x", SPANS, tree)
    assert [e["name"] for e in validated(tmp_path / "t.json") if e["pid"] == 2] == ["process_name", "new.o"]


def test_one_file_that_was_touched_later_moves_nothing(tmp_path: Path) -> None:
    run = BEGAN + 11
    tree = ninja_tree(tmp_path, *((0, 1000 * n, f"{n}.o", run) for n in range(1, 6)))
    os.utime(tmp_path / "3.o", (BEGAN + 9999, BEGAN + 9999))
    write_trace(tmp_path / "t.json", "x", SPANS, tree)
    starts = {e["ts"] / 1e6 for e in validated(tmp_path / "t.json") if e["pid"] == 2 and e["ph"] == "X"}
    assert starts == {run}


def test_without_ninja_there_are_the_phases(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.json", "x", SPANS, tmp_path)
    assert [e["name"] for e in validated(tmp_path / "t.json")] == ["process_name", "configure", "compile"]


def test_several_builds_in_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(tmp_path / f"{name}.json", "torch", SPANS, tmp_path)
    (tmp_path / "broken.json").write_text("{}")
    places = [(name, tmp_path / f"{name}.json") for name in ("a", "broken", "none", "b")]
    join_traces(tmp_path / "all.json", places)
    events = validated(tmp_path / "all.json")
    assert {e["args"]["name"]: e["pid"] for e in events if e["ph"] == "M"} == {"a: torch": 1, "b: torch": 7}
    assert len(events) == 6 and {e["pid"] for e in events} == {1, 7}


def test_a_build_that_ends_before_its_first_phase_leaves_a_trace_too(tmp_path: Path) -> None:
    tree = ninja_tree(tmp_path, (0, 2000, "gone.o", BEGAN))
    (tmp_path / "gone.o").unlink()
    write_trace(tmp_path / "t.json", "x", [], tree)
    assert [e["name"] for e in validated(tmp_path / "t.json")] == ["process_name"]


def test_a_build_without_a_phase_compiled_nothing(tmp_path: Path) -> None:
    """What lies in the tree was compiled by an earlier one."""
    write_trace(tmp_path / "t.json", "x", [], ninja_tree(tmp_path, (0, 2000, "old.o", BEGAN)))
    assert [e["name"] for e in validated(tmp_path / "t.json")] == ["process_name"]


@pytest.mark.parametrize(("early", "shown"), [(1.9, True), (2.1, False)])
def test_a_run_that_seems_to_begin_a_little_early_is_this_builds_own(early: float, shown: bool, tmp_path: Path) -> None:
    """A clock that was set, or a file system that rounds, moves it by a second or two."""
    tree = ninja_tree(tmp_path, (0, 4000, "a.o", BEGAN - early))
    write_trace(tmp_path / "t.json", "x", SPANS, tree)
    assert ("a.o" in [event["name"] for event in validated(tmp_path / "t.json")]) is shown


def test_a_run_whose_files_are_gone_is_left_out_without_its_time(tmp_path: Path) -> None:
    tree = ninja_tree(tmp_path, (0, 5000, "gone.o", BEGAN + 11), (0, 2000, "there.o", BEGAN + 12))
    (tmp_path / "gone.o").unlink()
    write_trace(tmp_path / "t.json", "x", SPANS, tree)
    assert [e["name"] for e in validated(tmp_path / "t.json") if e["pid"] == 2] == ["process_name", "there.o"]


def test_names_of_processes_stand_at_the_beginning_in_no_row(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.json", "x", SPANS, tmp_path)
    [named] = [event for event in validated(tmp_path / "t.json") if event["ph"] == "M"]
    assert (named["tid"], named["ts"]) == (0, 0)
