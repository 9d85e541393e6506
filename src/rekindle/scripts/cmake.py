"""Settings for CMake: which of them setup.py passes on by itself, and the code that sets the others."""

from __future__ import annotations

import re

from rekindle.errors import BadInput
from rekindle.scripts.quoting import plain_text

# What setup.py forwards as -D by itself, beside three prefixes (tools/setup_helpers/cmake.py of PyTorch).
_FORWARDED = frozenset(
    [
        "BLAS",
        "WITH_BLAS",
        "CUDA_NVCC_EXECUTABLE",
        "CUDNN_LIBRARY",
        "CUDNN_INCLUDE_DIR",
        "CUDNN_ROOT",
        "INTEL_MKL_DIR",
        "MKL_THREADING",
        "MKLDNN_CPU_RUNTIME",
        "ONNX_ML",
        "ONNX_NAMESPACE",
        "ATEN_THREADING",
        "WERROR",
    ]
)


def is_forwarded(name: str) -> bool:
    """Whether PyTorch's setup.py hands this variable of the environment to CMake."""
    return name.startswith(("USE_", "BUILD_", "CMAKE_")) or name in _FORWARDED


def cache_line(name: str, value: str) -> str:
    """A line of CMake that puts the value into the cache. A value that is no plain word stands in brackets longer than
    any in it: nothing in it is special then."""
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", name):
        raise BadInput(f"{name!r} is no name for a CMake setting")
    if not re.fullmatch(r"[A-Za-z0-9_./+-]+", plain_text(value)):
        fence = "=" * next(n for n in range(3, len(value) + 4) if f"]{'=' * n}]" not in value + "]")
        value = f"[{fence}[{value}]{fence}]"
    return f'set({name} {value} CACHE STRING "from the plan" FORCE)'
