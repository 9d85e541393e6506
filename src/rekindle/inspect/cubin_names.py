"""Who is inside a container: names of a few kernels, from one decompressed machine-code image.

Only for people: it turns "32 containers without your card" into "MAGMA". Costs one small decompression per
distinct set of architectures, and gives nothing rather than an error.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from rekindle.formats.fatbin import LZ4, ZSTD, Container, Entry

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
        import zstandard

        try:
            return zstandard.ZstdDecompressor().stream_reader(stored).read(HEAD)
        except zstandard.ZstdError:
            return b""
    return lz4_head(stored, HEAD) if flags & LZ4 else stored[:HEAD]


def lz4_head(data: bytes, limit: int) -> bytes:
    """The first bytes of an LZ4 block. Stops quietly at the limit, at the end, or at nonsense."""
    out, at, size = bytearray(), 0, len(data)
    while at < size and len(out) < limit:
        token = data[at]
        at += 1
        literals = token >> 4
        if literals == 15:
            literals, at = _more(data, at, literals)
        out += data[at : at + literals]
        at += literals
        if at + 2 > size:
            break
        distance = data[at] | data[at + 1] << 8
        at += 2
        length = token & 15
        if length == 15:
            length, at = _more(data, at, length)
        length = min(length + 4, limit - len(out))
        if not 0 < distance <= len(out) or length <= 0:
            break
        if distance >= length:
            begin = len(out) - distance
            out += out[begin : begin + length]
        else:
            piece = bytes(out[-distance:])
            out += (piece * (length // distance + 1))[:length]
    return bytes(out)


def _more(data: bytes, at: int, count: int) -> tuple[int, int]:
    while at < len(data):
        byte = data[at]
        at += 1
        count += byte
        if byte != 255 or count > HEAD:
            break
    return count, at


def merge(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The owners seen most often, over several containers of one set."""
    total = Counter(owner for some in names for owner in some)
    return tuple(owner for owner, _ in total.most_common(3))
