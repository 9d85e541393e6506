"""LZ4 blocks, as fat binaries store their images: decoded with a bound, and never an error for what a stranger wrote.

A block is a row of (literals, copy from before). What makes no sense ends it: the caller compares the length it got
with the one it was told. The package ``lz4`` decodes whole blocks a hundred times as fast where it is installed.
"""

try:
    from lz4.block import LZ4BlockError, decompress
except ImportError:
    decompress = None


def decode_lz4(data: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes of a block. Stops quietly at the limit, at the end, or at nonsense."""
    if decompress is not None:
        try:
            return bytes(decompress(data, uncompressed_size=limit))
        except (LZ4BlockError, ValueError):
            pass  # a longer block, of which the beginning is wanted, or a damaged one
    out, at, size = bytearray(), 0, len(data)
    while at < size and len(out) < limit:
        token = data[at]
        at += 1
        literals = token >> 4
        if literals == 15:
            literals, at = _read_length(data, at, literals, limit)
        out += data[at : at + literals]
        at += literals
        if at + 2 > size:
            break
        distance = data[at] | data[at + 1] << 8
        at += 2
        length = token & 15
        if length == 15:
            length, at = _read_length(data, at, length, limit)
        length = min(length + 4, limit - len(out))
        if not 0 < distance <= len(out) or length <= 0:
            break
        if distance >= length:
            begin = len(out) - distance
            out += out[begin : begin + length]
        else:
            piece = bytes(out[-distance:])
            out += (piece * (length // distance + 1))[:length]
    return bytes(out[:limit])


def _read_length(data: bytes, at: int, count: int, limit: int) -> tuple[int, int]:
    """A length that did not fit into its four bits: the bytes after it are added up to the first below 255."""
    while at < len(data):
        byte = data[at]
        at += 1
        count += byte
        if byte != 255 or count > limit:
            break
    return count, at
