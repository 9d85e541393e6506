"""Raw deflate and CRC-32: by zlib-ng where it is installed, else by zlib; the same answers, measured quicker.

On libtorch_cpu.so of torch 2.6.0 (442 MB) zlib-ng inflates a quarter faster on AArch64 and sums CRC-32 seven
times as fast (``benchmarks/inspect_wheel.py`` shows what that makes of a whole wheel).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, cast

crc32: Callable[[bytes, int], int]
Damaged: tuple[type[Exception], ...]

try:
    from zlib_ng import zlib_ng as _quick
except ImportError:
    ENGINE = "zlib"
    crc32 = zlib.crc32
    Damaged = (zlib.error,)

    def raw_inflater() -> Any:
        """A decompressor for deflate without a header, as zip members are."""
        return zlib.decompressobj(-zlib.MAX_WBITS)
else:
    ENGINE = "zlib-ng"
    crc32 = _quick.crc32
    # Its stub calls the class an instance.
    Damaged = (cast("type[Exception]", _quick.error), zlib.error)

    def raw_inflater() -> Any:
        """A decompressor for deflate without a header, as zip members are."""
        return _quick.decompressobj(-zlib.MAX_WBITS)
