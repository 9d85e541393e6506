"""Who is inside a container: names of a few kernels, from one decompressed machine-code image.

Only for people: it turns "32 containers without your card" into "MAGMA". Costs one small decompression per
distinct set of architectures, and gives nothing rather than an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from rekindle.formats.fatbin import Container, Entry
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
    found = [next((owner for pattern, owner in _OWNERS if pattern.search(name)), None) for name in names]
    return tuple(owner for owner, _ in Counter(filter(None, found)).most_common(2))


def kernel_names(data: bytes, entry: Entry) -> list[str]:
    """The kernels whose names stand in the first bytes of an image."""
    start = entry.offset + entry.header
    stored = bytes(data[start : start + min(entry.size, MOST_STORED)])
    from rekindle.formats.zstd import decode_zstd

    decode = {"zstd": decode_zstd, "lz4": decode_lz4}.get(entry.compression)
    head = decode(stored, HEAD) if decode else stored[:HEAD]
    return [match[1].decode("ascii", "replace") for match in _KERNEL.finditer(head)]


def merge(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The owners seen most often, over several containers of one set."""
    total = Counter(owner for some in names for owner in some)
    return tuple(owner for owner, _ in total.most_common(3))
