"""Ninja's log and build file, CMake's cache: as the tools write them, cut short, and with odd names."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from rekindle.formats.cmake_cache import is_true, read_cmake_cache
from rekindle.formats.ninja import latest, parse_build_ninja, parse_ninja_log

LOG = """# ninja log v6
0\t100\t5\ta.o\taa
0\t250\t6\tgen.h\tbb
0\t250\t6\tgen.cpp\tbb
100\t300\t7\tlib.so\tcc
0\t90\t8\ta.o\tdd
"""


def test_edges_runs_and_shared_outputs() -> None:
    edges = parse_ninja_log(LOG.splitlines(keepends=True))
    assert [edge.outputs for edge in edges] == [("a.o",), ("gen.h", "gen.cpp"), ("lib.so",), ("a.o",)]
    assert [edge.run for edge in edges] == [0, 0, 0, 1]
    assert latest(edges)["a.o"].seconds == 0.09


@given(st.integers(0, len(LOG)))
def test_a_log_cut_anywhere_is_read_as_far_as_it_is_whole(at: int) -> None:
    edges = parse_ninja_log(LOG[:at].splitlines(keepends=True))
    whole = parse_ninja_log(LOG.splitlines(keepends=True))
    assert len(edges) <= len(whole)
    assert {o for e in edges for o in e.outputs} <= {o for e in whole for o in e.outputs}


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    assert all(edge.outputs and edge.end >= edge.start for edge in parse_ninja_log(text.splitlines(keepends=True)))
    assert all(edge.outputs for edge in parse_build_ninja(text.splitlines(keepends=True)))


NINJA = """include CMakeFiles/rules.ninja
build a.o: CXX /s/a.cpp | pch.gch || order
  FLAGS = -O2 -DX=$$ORIGIN
  DEFINES = -DA
build with$ space.o out2: CXX C$:/x.cpp $
    y.cpp

build all: phony a.o
default all
"""


def test_build_file() -> None:
    first, second, third = parse_build_ninja(NINJA.splitlines(keepends=True))
    assert (first.rule, first.inputs) == ("CXX", ("/s/a.cpp", "pch.gch", "order"))
    assert first.variables == {"FLAGS": "-O2 -DX=$ORIGIN", "DEFINES": "-DA"}
    assert second.outputs == ("with space.o", "out2")
    assert second.inputs == ("C:/x.cpp", "y.cpp")
    assert third.rule == "phony"


def test_cache(tmp_path: Path) -> None:
    path = tmp_path / "CMakeCache.txt"
    path.write_text(
        '// a comment\n# another\nUSE_CUDA:BOOL=OFF\nCMAKE_CXX_FLAGS:STRING=-O2 -DA=b:c=d\n"od:d":STRING=x\n'
        "LEAD:STRING=' x '\nEMPTY:STRING=\nnonsense\n",
        encoding="utf-8",
    )
    assert read_cmake_cache(path) == {
        "USE_CUDA": "OFF", "CMAKE_CXX_FLAGS": "-O2 -DA=b:c=d", "od:d": "x", "LEAD": " x ", "EMPTY": "",
    }  # fmt: skip
    assert read_cmake_cache(tmp_path / "none") == {}


def test_truth_as_cmake_sees_it() -> None:
    assert all(map(is_true, ("ON", "1", "yes", "TRUE", "/usr/lib/libx.so")))
    assert not any(map(is_true, ("", "0", "OFF", "No", "FALSE", "NOTFOUND", "CUDNN_LIBRARY-NOTFOUND")))
