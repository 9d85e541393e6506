"""Raw deflate and CRC-32: by zlib-ng where it is installed, else by zlib; the same answers, measured quicker.

On libtorch_cpu.so of torch 2.6.0 (442 MB) zlib-ng inflates a quarter faster on AArch64 and sums CRC-32 seven
times as fast (``benchmarks/inspect_wheel.py`` shows what that makes of a whole wheel).
"""

import contextlib
import importlib
import zlib
from collections.abc import Callable
from typing import Any

_engine: Any = zlib
with contextlib.suppress(ImportError):
    _engine = importlib.import_module("zlib_ng.zlib_ng")

ENGINE: str = _engine.__name__
Damaged: type[Exception] = _engine.error
crc32: Callable[[bytes, int], int] = _engine.crc32


def raw_inflater() -> Any:
    """A decompressor for deflate without a header, as zip members are."""
    return _engine.decompressobj(-zlib.MAX_WBITS)
