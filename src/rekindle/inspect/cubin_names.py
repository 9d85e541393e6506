"""Who is inside a container: names of a few kernels, from one decompressed machine-code image.

Only for people: it turns "32 containers without your card" into "MAGMA". Costs one small decompression per
distinct set of architectures, and gives nothing rather than an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from rekindle.formats.fatbin import LZ4, ZSTD, Container, Entry
from rekindle.formats.lz4 import decode_lz4

HEAD = 1 << 16
MOST_STORED = 1 << 18
_KERNEL = re.compile(rb"\.text\.([A-Za-z_][\w.$]*)")
# What a kernel's name starts with, and whose it is. Order matters: the more specific first.
_OWNERS = (
    (re.compile(r"magma|zgemm_kernel|batched_|_magma"), "MAGMA"),
    (re.compile(r"cusparse"), "cuSPARSE"),
    (re.compile(r"cusolver|_ZN8cusolver"), "cuSOLVER"),
    (re.compile(r"cufft|_fft|vector_fft|regular_fft|composite_fft"), "cuFFT"),
    (re.compile(r"cudnn|implicit_convolve|scudnn"), "cuDNN"),
    (re.compile(r"cublas|gemvx|gemv2T|dot_kernel|_ZN2?5?cublas"), "cuBLAS"),
    (re.compile(r"nccl", re.IGNORECASE), "NCCL"),
    (re.compile(r"nvshmem", re.IGNORECASE), "NVSHMEM"),
    (re.compile(r"cutlass|fmha_|flash_"), "CUTLASS"),
    (re.compile(r"_ZN2at|_ZN3c10|_ZN5torch"), "ATen"),
    (re.compile(r"_ZN3cub|_ZN6thrust"), "CUB/Thrust"),
)


def owners_of(data: bytes, container: Container) -> tuple[str, ...]:
    """The libraries whose kernels a container holds; empty where nothing could be read."""
    entry = min((one for one in container.entries if one.kind == "sass"), key=lambda one: one.size, default=None)
    if entry is None:
        return ()
    names = kernel_names(data, entry)
    found = Counter(owner for name in names if (owner := _owner(name)))
    return tuple(owner for owner, _ in found.most_common(2))


def _owner(name: str) -> str | None:
    return next((owner for pattern, owner in _OWNERS if pattern.search(name)), None)


def kernel_names(data: bytes, entry: Entry) -> list[str]:
    start = entry.offset + entry.header
    stored = bytes(data[start : start + min(entry.size, MOST_STORED)])
    head = _head(stored, entry.flags)
    return [match[1].decode("ascii", "replace") for match in _KERNEL.finditer(head)]


def _head(stored: bytes, flags: int) -> bytes:
    if flags & ZSTD:
        from rekindle.formats.zstd import ZstdError, read_zstd

        try:
            return read_zstd(stored, HEAD)
        except ZstdError:
            return b""
    return decode_lz4(stored, HEAD) if flags & LZ4 else stored[:HEAD]


def merge(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The owners seen most often, over several containers of one set."""
    total = Counter(owner for some in names for owner in some)
    return tuple(owner for owner, _ in total.most_common(3))
