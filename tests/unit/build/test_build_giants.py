"""Longest first, as a real Ninja sees it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import needs
from rekindle.build.history import History, ObjectCosts
from rekindle.build.steps import giants_first
from rekindle.model.progress import GIANT_SECONDS

NINJA = """\
rule touch
  command = touch $out && echo $out >> order
rule link
  command = touch $out
build a.cpp.o: touch
build dir$ one/Sort.cu.o | extra: touch $
  || nothing
  FLAGS = -O2
build b.cpp.o: touch
build x/Indexing.cu.o: touch
build learnt.cpp.o: touch
build nothing: phony
build lib.so: link a.cpp.o dir$ one/Sort.cu.o b.cpp.o x/Indexing.cu.o learnt.cpp.o
default lib.so
"""


def learnt(**seconds: float) -> ObjectCosts:
    return ObjectCosts(History(objects={name.replace("_", "."): (1, value) for name, value in seconds.items()}))


@needs.tool("ninja")
def test_ninja_starts_the_longest_first(tmp_path: Path) -> None:
    (tmp_path / "build.ninja").write_text(NINJA)
    (tmp_path / "dir one").mkdir()
    assert giants_first(tmp_path, learnt(learnt_cpp_o=300.0, a_cpp_o=3.0)) == 3
    subprocess.run(["ninja", "-j1", "-C", tmp_path], check=True, capture_output=True)
    order = (tmp_path / "order").read_text().splitlines()
    assert order == ["learnt.cpp.o", "dir one/Sort.cu.o", "x/Indexing.cu.o", "a.cpp.o", "b.cpp.o"]


def test_again_changes_nothing_and_nothing_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "build.ninja"
    file.write_text(NINJA)
    giants_first(tmp_path, learnt())
    once = file.read_text()
    stamp = file.stat().st_mtime_ns
    giants_first(tmp_path, learnt())
    assert (file.read_text(), file.stat().st_mtime_ns) == (once, stamp)
    assert sorted(once.splitlines()) == sorted(NINJA.splitlines())


@pytest.mark.parametrize("text", ["", "rule x\n  command = y\n", "build a.o: x"])
def test_files_without_giants_stay(tmp_path: Path, text: str) -> None:
    (tmp_path / "build.ninja").write_text(text)
    assert giants_first(tmp_path, learnt()) == 0
    assert (tmp_path / "build.ninja").read_text() == text


def test_what_takes_a_giants_time_is_one_and_a_little_less_is_none(tmp_path: Path) -> None:
    text = "rule cxx\n  command = y\nbuild a.cpp.o: cxx\nbuild b.cpp.o: cxx\n"
    for seconds, moved in ((GIANT_SECONDS, 1), (GIANT_SECONDS - 0.5, 0)):
        (tmp_path / "build.ninja").write_text(text)
        assert giants_first(tmp_path, learnt(b_cpp_o=seconds)) == moved
        lines = (tmp_path / "build.ninja").read_text().splitlines()
        assert lines[:2] == text.splitlines()[:2], "rules stay before what uses them"
        assert lines[2].startswith("build b.cpp.o" if moved else "build a.cpp.o")


def test_no_file_is_no_error(tmp_path: Path) -> None:
    assert giants_first(tmp_path, learnt()) == 0
