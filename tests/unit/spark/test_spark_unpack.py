"""The miniature arrives whole, and what makes it hard is really in it."""

from __future__ import annotations

from pathlib import Path

from rekindle.spark.unpack import tree_files, tree_version, unpack


def test_unpack_is_whole_and_survives_a_broken_attempt(tmp_path: Path) -> None:
    target = tmp_path / "ein Ordner" / "späne"
    (target.with_name("späne.part") / "junk").mkdir(parents=True)
    unpack(target)
    on_disk = {p.relative_to(target).as_posix(): p.read_bytes() for p in target.rglob("*") if p.is_file()}
    assert on_disk == tree_files()


def test_the_tree_is_hard_in_the_ways_it_claims() -> None:
    files = {name: content.decode() for name, content in tree_files().items()}
    assert "cmake_minimum_required(VERSION 3.0" in files["CMakeLists.txt"]
    assert "cmake_policy(VERSION 2.8.12)" in files["spark/lib/libember/CMakeLists.txt"]
    assert "from distutils import msvccompiler" in files["tools/build_spark_libs.py"]
    assert tree_version() == "0.3.0"
    assert all("\r" not in content for content in files.values())
