"""Whose CMake reads torch's own CMake files, and so wants a whole CUDA toolkit beside a torch with CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.build.companion import finds_torch

CMAKE = "cmake_minimum_required(VERSION 3.18)\nfind_package(Torch REQUIRED)\n"


@pytest.mark.parametrize(
    ("setup", "cmake", "asked"),
    [
        ("from tools.setup_helpers import CMakeBuild\n", CMAKE, True),  # torchaudio
        ("from torch.utils.cpp_extension import CppExtension\n", CMAKE, False),  # torchvision has both, uses the first
        ("from tools.setup_helpers import CMakeBuild\n", "project(other)\n", False),
        ("", CMAKE, True),
    ],
)
def test_a_build_by_cpp_extension_leaves_cmake_alone(setup: str, cmake: str, asked: bool, tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(setup)
    (tmp_path / "CMakeLists.txt").write_text(cmake)
    assert finds_torch(tmp_path) is asked
