"""Where run-time libraries usually lie on this machine: toolkits, NVIDIA's Python packages, system directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.protocol import Host

_LINUX = (
    "/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda-*/targets/*/lib", "/opt/rocm/lib",
    "/opt/rocm-*/lib", "/usr/lib/*-linux-gnu", "/usr/lib64", "/usr/lib", "/lib/*-linux-gnu", "/lib64", "/lib",
    "/usr/local/lib",
)  # fmt: skip
_WINDOWS = (
    "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/v*/bin", "C:/Program Files/NVIDIA/CUDNN/v*/bin",
    "C:/Program Files/AMD/ROCm/*/bin", "C:/Windows/System32",
)  # fmt: skip


def search_places(given: Sequence[str], host: Host) -> list[Path]:
    """The user's directories first (with the ``lib`` and ``bin`` below them), then the machine's."""
    places: list[Path] = []
    for text in given:
        path = Path(text)
        if not path.is_dir():
            raise BadInput(f"--library-path {text} is no directory")
        places += [path, *(sub for name in ("lib64", "lib", "bin") if (sub := path / name).is_dir())]
        # NVIDIA's packages on PyPI: site-packages/nvidia/cublas/lib, …/bin on Windows.
        places += sorted(sub for pattern in ("nvidia/*/lib", "nvidia/*/bin", "*/lib") for sub in path.glob(pattern))
    variable = "PATH" if host.system == "windows" else "LD_LIBRARY_PATH"
    separator = ";" if host.system == "windows" else ":"
    places += [Path(part) for part in host.env.get(variable, "").split(separator) if part]
    for name in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CUDNN_ROOT"):
        if root := host.env.get(name):
            places += [Path(root) / sub for sub in ("lib64", "lib", "bin")]
    for pattern in _WINDOWS if host.system == "windows" else _LINUX:
        # Newest toolkit first: names carry the version, so a wrong one cannot be taken.
        places += [Path(path) for path in reversed(host.glob(pattern))]
    return [path for path in dict.fromkeys(places) if path.is_dir()]
