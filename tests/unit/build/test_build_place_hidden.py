"""The flag that keeps the tree's place out of what is compiled, and how compilers and CMake are given it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import needs
from rekindle.build.environment import BuildEnvironment, flag_file, prefix_map, render_cache_script


@needs.posix()
def test_the_place_is_mapped_to_a_dot_or_to_the_name_that_is_given() -> None:
    assert prefix_map(Path("/home/me/a b")) == "-ffile-prefix-map=/home/me/a b=."
    assert prefix_map(Path("/env"), "python") == "-ffile-prefix-map=/env=python"


@needs.posix()
@pytest.mark.parametrize("letter", ['"', "\\", "$", ";", "<", ">", "\n", "\x7f"])
def test_a_place_with_letters_that_cmake_reads_otherwise_has_no_flag(letter: str) -> None:
    assert prefix_map(Path(f"/a{letter}b")) is None


@pytest.mark.parametrize("flag", ["-fplain=/x=.", "-fspaced=/a b c=.", "-fquoted=/it's=."])
def test_a_file_of_flags_is_read_as_one_word(flag: str) -> None:
    """As a compiler reads it: like a shell, where a backslash takes the meaning from what follows."""
    text = flag_file(flag)
    assert shlex.split(text) == [flag] and text.endswith("\n") and text.count("\n") == 1
    assert flag_file("-fplain") == "-fplain\n"


def test_flags_reach_c_and_cpp_in_the_order_they_are_given() -> None:
    lines = render_cache_script({"B": "2", "A": "1"}, "-fmap=a", more=["-fmap=b"]).splitlines()
    assert lines[1:] == [
        'set(A 1 CACHE STRING "from the plan" FORCE)',
        'set(B 2 CACHE STRING "from the plan" FORCE)',
        'add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fmap=a>")',
        'add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fmap=b>")',
    ]
    assert lines[0].startswith("# Written by rekindle")


def test_without_a_flag_there_are_the_settings_alone() -> None:
    assert "add_compile_options" not in render_cache_script({"A": "1"}, None, steady_cuda=True)


def test_names_of_cuda_files_are_kept_steady_without_the_comments_of_our_own_file() -> None:
    text = render_cache_script({}, "-fmap=a", steady_cuda=True)
    assert text.count("\n#") == 0 and len(text.splitlines()) > len(render_cache_script({}, "-fmap=a").splitlines()) + 1


def test_a_front_end_that_takes_settings_by_name_gets_all_that_are_cmakes() -> None:
    chosen = {"USE_CUDA": "1", "MAX_JOBS": "4", "BLAS": "MKL", "CC": "gcc"}
    env = BuildEnvironment(full={"PATH": "/bin"}, chosen=chosen, dropped=(), cache_settings={"CAFFE2_X": "1"})
    assert env.defines == {"USE_CUDA": "1", "BLAS": "MKL", "CAFFE2_X": "1"}
    env.choose({"BUILD_TEST": "0"})
    assert env.defines["BUILD_TEST"] == env.full["BUILD_TEST"] == "0"
