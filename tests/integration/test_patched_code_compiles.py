"""What a patch puts into a source does what its header says, by the real compiler and the real CMake."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import needs
from rekindle.source.patches import apply, choose, load_patches
from rekindle.source.patches.header import Context

TREES = Path(__file__).parents[1] / "trees/torch"
pytestmark = [pytest.mark.integration]

OLD = "static inline bool cpuinfo_initialize(void) { return true; }\n"
NEW = OLD + "".join(
    f"static inline bool cpuinfo_has_x86_amx_{what}(void) {{ return true; }}\n" for what in ("tile", "fp16")
)
MAIN = '#include <cstdio>\nint main() { std::printf("%d %d", is_amx_tile_supported(), is_amx_fp16_supported()); }\n'


def patched(name: str, tree: Path) -> None:
    shutil.copytree(TREES / name, tree)
    for mark in ("c10/CMakeLists.txt", "torch/__init__.py", "setup.py", "version.txt"):
        path = tree / mark
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1.13.0a0\n" if mark == "version.txt" else "")
    (patch,) = [one for one in load_patches("torch") if one.id == name]
    assert apply(tree, choose([patch], Context(patch.example, tree))).patches[0].state == "applied"


@needs.tool("g++")
@pytest.mark.parametrize(("header", "answer"), [(OLD, "0 0"), (NEW, "1 1")], ids=["an old cpuinfo", "a new one"])
def test_a_cpuinfo_without_amx_says_no_and_a_new_one_is_asked(header: str, answer: str, tmp_path: Path) -> None:
    patched("cpuinfo-without-amx", tmp_path / "tree")
    own = tmp_path / "include"
    (own / "ATen/cpu").mkdir(parents=True)
    (own / "ATen/cpu/Utils.h").write_text("")
    (own / "cpuinfo.h").write_text(header)
    source = tmp_path / "tree/aten/src/ATen/cpu/Utils.cpp"
    source.write_text(source.read_text() + MAIN)
    program = tmp_path / "asks"
    subprocess.run(["g++", "-Wall", "-Wextra", "-Werror", f"-I{own}", source, "-o", program], check=True, timeout=120)
    assert subprocess.run([program], capture_output=True, text=True, check=True, timeout=20).stdout == answer


@needs.tool("cmake")
@pytest.mark.parametrize("fixed", [False, True], ids=["as it is", "patched"])
def test_the_version_file_is_made_where_the_path_has_a_blank(fixed: bool, tmp_path: Path) -> None:
    tree = tmp_path / "my tree"
    if fixed:
        patched("version-file-blanks", tree)
    else:
        shutil.copytree(TREES / "version-file-blanks", tree)
    (tree / "tools").mkdir()
    (tree / "tools/generate_torch_version.py").write_text("open('torch/version.py', 'w').write('x')\n")
    python = shutil.which("python3")
    (tree / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(x NONE)\nset(TORCH_ROOT ${CMAKE_CURRENT_SOURCE_DIR})\n"
        "set(TOOLS_PATH ${TORCH_ROOT}/tools)\nset(TORCH_SRC_DIR ${TORCH_ROOT}/torch)\n"
        f"set(PYTHON_EXECUTABLE {python})\nadd_subdirectory(torch)\n"
    )
    lists = tree / "torch/CMakeLists.txt"
    lists.write_text(lists.read_text() + "add_custom_target(all_of_it ALL DEPENDS ${TORCH_SRC_DIR}/version.py)\n")
    subprocess.run(["cmake", "-S", tree, "-B", tree / "build"], check=True, capture_output=True, timeout=120)
    done = subprocess.run(["cmake", "--build", tree / "build"], capture_output=True, text=True, timeout=120)
    assert (tree / "torch/version.py").is_file() == fixed, done.stdout + done.stderr
