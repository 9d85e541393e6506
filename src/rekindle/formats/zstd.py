"""Zstandard, bounded: the beginning of a stream, and a stream of our own. Python has it from 3.14 on."""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_PIECE = 1 << 16
_LEVEL = 9
ZstdError = zstd.ZstdError


def read_zstd(stored: bytes, size: int, *, window_log: int = 27) -> bytes:
    """At most ``size`` bytes of what was compressed; fewer where the stream ends or is damaged behind them. A stream
    that gives nothing raises ``ZstdError``. Memory for a large window is touched only as far as is read."""
    reader = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log})
    out, start = bytearray(), 0
    try:
        while not reader.eof and start < len(stored) and len(out) < size:
            piece = stored[start : start + _PIECE]
            start += _PIECE
            while not reader.eof and len(out) < size and (read := reader.decompress(piece, max_length=size - len(out))):
                out += read
                piece = b""
    except ZstdError:
        if not out:
            raise
    return bytes(out)


def write_zstd(data: bytes, *, window_log: int | None = None) -> bytes:
    """One stream that says how long its content is; ``window_log``: what repeats is found so far apart."""
    if window_log is None:
        return zstd.compress(data, level=_LEVEL)
    far = zstd.CompressionParameter
    options: dict[int, int] = {far.compression_level: _LEVEL, far.window_log: window_log}
    return zstd.compress(data, options=options | {far.enable_long_distance_matching: 1})
