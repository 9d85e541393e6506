"""What is installed to build against: CUDA, cuDNN, NCCL, ROCm, MKL, OpenBLAS, and the pieces pip brought."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from rekindle.doctor.cuda import find_cuda
from rekindle.doctor.libraries import find_blas, find_cudnn, find_nccl, find_oneapi, packaged_cuda
from rekindle.doctor.rocm import find_rocm
from rekindle.host.asking import Asking
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Toolkit

# Package on PyPI (underscored, any CUDA) -> what it is a piece of. Only those a build or a use asks for.
_PIECES = {
    "nvidia_cudnn": "cudnn", "nvidia_nccl": "nccl", "nvidia_cuda_nvcc": "cuda", "rocm_sdk_core": "rocm",
    "rocm_sdk_devel": "rocm", "mkl": "mkl",
}  # fmt: skip


def probe_toolkits(host: Asking) -> tuple[Toolkit, ...]:
    cuda = find_cuda(host)
    nvidia = find_cudnn(host, cuda) + find_nccl(host, cuda)
    if nvidia:
        packaged = packaged_cuda(host)
        nvidia = [_with_cuda(toolkit, packaged) for toolkit in nvidia]
    return (*cuda, *nvidia, *find_rocm(host), *find_oneapi(host), *find_blas(host))


def _with_cuda(toolkit: Toolkit, packaged: Mapping[str, str]) -> Toolkit:
    cuda = packaged.get(toolkit.version or "")
    if cuda is None or "for CUDA" in (toolkit.note or ""):
        return toolkit
    return replace(toolkit, note=", ".join(filter(None, (f"for CUDA {cuda}", toolkit.note))))


def pip_pieces(answers: Mapping[str, Interpreter]) -> tuple[Toolkit, ...]:
    """Toolkits that live in Pythons' site-packages; each place once, however many links lead there."""
    found: dict[tuple[str, str, str], Toolkit] = {}
    for answer in answers.values():
        for name, package in answer.packages.items():
            match = re.fullmatch(r"(.+?)(?:_cu(\d+))?", name)
            if match is None or match[1] not in _PIECES:
                continue
            kind, version, path = _PIECES[match[1]], package.version, package.path
            note = "pip" + (f", for CUDA {match[2]}" if match[2] else "")
            # nvidia-cudnn 9.19.0.56 is cuDNN 9.19.0; the fourth number is the package's.
            short = ".".join(version.split(".")[:3]) if kind == "cudnn" else version
            found.setdefault((kind, version, path), Toolkit(kind=kind, version=short, path=path, note=note))
    return tuple(found.values())
