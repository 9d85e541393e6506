"""CMake settings: what setup.py passes on, and lines that CMake reads as the value they were made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from needs import tool
from rekindle.errors import BadInput
from rekindle.scripts.quoting import cache_line, is_forwarded

VALUES = ("OFF", "a b", "a;b", "${x}", 'a "b"', "]]", "]=]", "]===]", "]==", "a\\b", "", "#x", "$ENV{HOME}")


@tool("cmake")
@pytest.mark.parametrize("value", VALUES)
def test_cmake_reads_the_value(value: str, tmp_path: Path) -> None:
    script = tmp_path / "x.cmake"
    script.write_text(cache_line("A_VALUE", value) + '\nfile(WRITE "out.txt" "${A_VALUE}")\n', "utf-8")
    subprocess.run(["cmake", "-P", str(script)], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "out.txt").read_text("utf-8") == value


def test_a_plain_word_stays_plain_and_another_stands_in_brackets() -> None:
    assert cache_line("A", "OFF") == 'set(A OFF CACHE STRING "from the plan" FORCE)'
    assert cache_line("A", "a b") == 'set(A [===[a b]===] CACHE STRING "from the plan" FORCE)'


@pytest.mark.parametrize(("name", "value"), [("A)", "1"), ("A B", "1"), ("A", "1\n2")])
def test_what_cannot_be_said_is_refused(name: str, value: str) -> None:
    with pytest.raises(BadInput):
        cache_line(name, value)


@pytest.mark.parametrize("name", ["USE_CUDA", "BUILD_TEST", "CMAKE_BUILD_TYPE", "BLAS", "CUDNN_ROOT", "WERROR"])
def test_what_setup_py_passes_on(name: str) -> None:
    assert is_forwarded(name) and not is_forwarded("X" + name)
