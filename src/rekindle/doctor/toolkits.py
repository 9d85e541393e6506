"""What is installed to build against: CUDA, cuDNN, NCCL, ROCm, MKL, OpenBLAS."""

from __future__ import annotations

from rekindle.doctor.cuda import find_cuda
from rekindle.doctor.probing import Asking
from rekindle.model.machine import Toolkit


def probe_toolkits(host: Asking) -> tuple[Toolkit, ...]:
    return find_cuda(host)
