"""CUDA fat binaries: which machine code (SASS) and PTX a library carries, without decompressing any.

A section (``.nv_fatbin``, ``__nv_relfatbin``; in PE cut to ``.nv_fatb``) is a row of *containers*, one per
compiled source file. A container is a row of *entries*, one per target. Layout, read from published files
of CUDA 9 to 13.4 and held against cuobjdump::

    container  u32 magic 0xBA55ED50, u16 version, u16 header size, u64 size
    entry      u16 kind, u16 version, u32 header size, u64 payload size, u32 compressed size, u32 options at,
               u16 minor, u16 major, u32 arch, u32 -, u32 -, u64 flags, u64 -, u64 uncompressed size
    options    u32 where (from the entry), u32 bytes, text: what ptxas was told; of PTX only, behind the entry's fields

An image is compressed with LZ4 (up to CUDA 12.7), zstd (from 12.8) or not at all. Payloads are padded to 8 bytes.
"""

import contextlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

from rekindle.formats.view import Malformed, release
from rekindle.model.arch import Sm

try:
    from lz4.block import LZ4BlockError, decompress
except ImportError:
    decompress = None

SECTIONS = (".nv_fatbin", "__nv_relfatbin", ".nv_fatb", "__nv_rel", ".nvFatBi", ".nvFatBin")
# Parts for the device linker, of which the linked image lies in another section.
RELOCATABLE = ("__nv_relfatbin", "__nv_rel")
MAGIC = b"\x50\xed\x55\xba"
KINDS = {1: "ptx", 2: "sass", 8: "lto"}
LZ4, ZSTD = 0x2000, 0x8000
SPECIFIC, FAMILY = 0x100000, 0x200000
_CONTAINER = Struct("<4sHHQ")
_ENTRY = Struct("<HHIQIIHHIIIQ")
# The fields up to `flags` must be there; the uncompressed size follows in all known files.
_LEAST_HEADER = _ENTRY.size
_FULL_HEADER = _LEAST_HEADER + 16
_SIZE, _PLACE = Struct("<Q"), Struct("<II")
_TOLD = _FULL_HEADER + _PLACE.size
_MOST_HEADER = 4096
MAX_CONTAINERS = 1_000_000
STRETCH = 16 << 20
# The largest image of a published wheel has 24 MiB; one that claims more costs minutes to decode.
MAX_IMAGE = 256 << 20
_VERSION, _ENTRY_VERSION = 1, 0x101
# How a container without anything unusual begins.
_PLAIN_HEAD = _CONTAINER.pack(MAGIC, _VERSION, _CONTAINER.size, 0)[:8]
_PADDING = 8
# 64-bit code, made on Linux (Windows has 0x20 there).
_PLAIN_FLAGS = 0x11
_MADE_ON = 0x70
_FLAGS_AT = _LEAST_HEADER - 8


class Entry(NamedTuple):
    """One target's code: ``kind`` sass, ptx, lto (the compiler's own form, for linking at run time) or ``kind N`` where
    we do not know it, ``number`` 90, ``suffix`` a."""

    kind: str
    number: int
    suffix: str
    size: int
    flags: int
    version: tuple[int, int]
    offset: int
    header: int
    stored: int

    @property
    def arch(self) -> Sm:
        return Sm.from_number(self.number, self.suffix)

    @property
    def name(self) -> str:
        return {"ptx": self.arch.compute, "lto": self.arch.lto}.get(self.kind, str(self.arch))

    @property
    def compression(self) -> str:
        return "zstd" if self.flags & ZSTD else "lz4" if self.flags & LZ4 else "none"


class Container(NamedTuple):
    offset: int
    size: int
    entries: tuple[Entry, ...]


def read_containers(data: Any, offset: int, size: int, what: str = "fatbin") -> Iterator[Container]:
    """All containers of one section. A size that lies is :class:`Malformed`; zero padding is skipped."""
    end = offset + size
    if offset < 0 or size < 0 or end > len(data):
        raise Malformed(f"{what}: the fat binary section lies outside the file")
    position, count = offset, 0
    while (position := _next_magic(data, position, end, offset)) >= 0:
        count += 1
        if count > MAX_CONTAINERS:
            raise Malformed(f"{what} holds more than {MAX_CONTAINERS} fat binaries")
        container = _read_container(data, position, end, what)
        yield container
        position += container.size


def read_image(data: Any, entry: Entry, what: str = "fatbin") -> bytes:
    """The image of one entry, decompressed: a cubin, or PTX without the zeros behind it."""
    start = entry.offset + entry.header
    image = bytes(data[start : start + entry.size])
    if entry.compression != "none":
        at = entry.offset + _LEAST_HEADER + 8
        size = _SIZE.unpack_from(data, at)[0] if entry.header >= _FULL_HEADER else 0
        if not 0 < size <= MAX_IMAGE:
            raise Malformed(f"{what}: the entry at offset {entry.offset} claims an image of {size} bytes")
        image = decode_head(entry, image[: entry.stored or None], size)
        if len(image) != size:
            raise Malformed(f"{what}: the image at offset {entry.offset} is damaged ({len(image)} of {size} bytes)")
    return image.rstrip(b"\0") if entry.kind == "ptx" else image


def decode_head(entry: Entry, stored: bytes, limit: int) -> bytes:
    """At most so many bytes of an entry's image, from what is stored of it."""
    if entry.compression == "none":
        return stored[:limit]
    if entry.compression == "lz4":
        return decode_lz4(stored, limit)
    from rekindle.formats.zstd import ZstdError, read_zstd

    with contextlib.suppress(ZstdError):
        return read_zstd(stored, limit)
    return b""


def read_options(data: Any, entry: Entry) -> tuple[str, ...]:
    """What ptxas was told when an entry's PTX was made, as the driver would tell it again; empty where nothing is."""
    head = bytes(data[entry.offset : entry.offset + entry.header]).ljust(_TOLD, b"\0")
    where, size = _PLACE.unpack_from(head, _FULL_HEADER)
    if entry.kind != "ptx" or where < _TOLD or where + size > entry.header:
        return ()
    text = head[where : where + size]
    return tuple(text.split(b"\0")[0].decode("utf-8", "replace").split())


def write_entry(image: bytes, arch: Sm, *, compression: str = "none") -> bytes:
    """One entry of machine code. NVIDIA's fatbinary adds properties from sm_100 on: take its entry if it is there."""
    flags = _PLAIN_FLAGS + {"": 0, "a": SPECIFIC, "f": FAMILY}[arch.suffix]
    stored, size, body = 0, 0, image
    if compression == "zstd":
        from rekindle.formats.zstd import write_zstd

        flags |= ZSTD
        body = write_zstd(image)
        stored, size = len(body), len(image)
    body += bytes(-len(body) % _PADDING)
    # The version is that of the cubin's own form.
    made_by = (image[8], 1, arch.number, 0, 0, flags)
    head = _ENTRY.pack(2, _ENTRY_VERSION, _FULL_HEADER, len(body), stored, 0, *made_by)
    return head + _SIZE.pack(0) + _SIZE.pack(size) + body


def set_host(entry: bytes, flags: int) -> bytes:
    """The same entry, made for the host's system that the ``flags`` of an entry beside it name."""
    own = _SIZE.unpack_from(entry, _FLAGS_AT)[0]
    return entry[:_FLAGS_AT] + _SIZE.pack(own & ~_MADE_ON | flags & _MADE_ON) + entry[_FLAGS_AT + _SIZE.size :]


def container_head(size: int) -> bytes:
    """What stands before ``size`` bytes of entries to make them a container."""
    return _CONTAINER.pack(MAGIC, _VERSION, _CONTAINER.size, size)


def stray_containers(data: Any, known: Sequence[tuple[int, int]]) -> Iterator[Container]:
    """Containers anywhere in a file outside the ``known`` (offset, size) stretches: cuFFT and cuBLASLt keep most of
    theirs among plain data. Bytes that only look like one are passed over."""
    position, count = 0, 0
    stretches = sorted(known)
    while (found := _find_far(data, position)) is not None and count < MAX_CONTAINERS:
        position = found
        inside = next((start + size for start, size in stretches if start <= position < start + size), None)
        if inside is not None:
            position = inside
            continue
        container = None
        if bytes(data[position : position + len(_PLAIN_HEAD)]) == _PLAIN_HEAD:
            with contextlib.suppress(Malformed):
                container = _read_container(data, position, len(data), "fatbin")
        if container is not None and container.entries:
            count += 1
            yield container
            position += container.size
        else:
            position += len(MAGIC)


def _find_far(data: Any, position: int) -> int | None:
    """The next magic in the whole file; pages of a mapped file that were searched are given back."""
    while position < len(data):
        stop = min(len(data), position + STRETCH)
        magic: int = data.find(MAGIC, position, stop + len(MAGIC))
        release(data, position, (stop if magic < 0 else magic) - position)
        if magic >= 0:
            return magic
        position = stop
    return None


def _read_container(data: Any, position: int, end: int, what: str) -> Container:
    if position + _CONTAINER.size > end:
        raise Malformed(f"{what}: a fat binary at offset {position} is cut off")
    _, _, header, length = _CONTAINER.unpack_from(data, position)
    stop = position + header + length
    if header < _CONTAINER.size or stop > end:
        raise Malformed(f"{what}: the fat binary at offset {position} claims {length} bytes, more than there are")
    at, entries = position + header, []
    while at + _LEAST_HEADER <= stop:
        number, _, head, size, stored, _, minor, major, arch, _, _, flags = _ENTRY.unpack_from(data, at)
        if not _LEAST_HEADER <= head <= _MOST_HEADER or at + head + size > stop:
            raise Malformed(f"{what}: the entry at offset {at} claims {head}+{size} bytes, which cannot be")
        if not 10 <= arch < 1000:
            raise Malformed(f"{what}: the entry at offset {at} names architecture {arch}")
        suffix = "a" if flags & SPECIFIC else "f" if flags & FAMILY else ""
        kind = KINDS.get(number) or f"kind {number}"
        entries.append(Entry(kind, arch, suffix, size, flags, (major, minor), at, head, stored))
        at += head + size
    # Trailing zeros inside a container are padding.
    if any(data[at:stop]):
        raise Malformed(f"{what}: an entry at offset {at} is cut off")
    return Container(position, header + length, tuple(entries))


def _next_magic(data: Any, position: int, end: int, base: int) -> int:
    """The next container: padding is zeros up to the next multiple of 8 (or 16), anything else is searched."""
    aligned = base + (position - base + 7) // 8 * 8
    while aligned + 4 <= end and aligned < position + 64:
        word = data[aligned : aligned + 4]
        if word == MAGIC:
            return aligned
        if any(word):
            break
        aligned += 8
    return int(data.find(MAGIC, position, end))


def decode_lz4(data: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes of an LZ4 block, a row of (literals, copy from before). Stops quietly at the limit, the
    end, or nonsense: the caller compares the length. The package ``lz4`` is a hundred times as fast."""
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
            literals, at = _read_length(data, at, literals)
        out += data[at : at + literals]
        at += literals
        if at + 2 > size:
            break
        distance = data[at] | data[at + 1] << 8
        at += 2
        length = token & 15
        if length == 15:
            length, at = _read_length(data, at, length)
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


def _read_length(data: bytes, at: int, count: int) -> tuple[int, int]:
    """A length that did not fit into its four bits: the bytes after it are added up to the first below 255. All of it
    is read even where less is wanted: what it counts stands behind it."""
    while at < len(data):
        byte = data[at]
        at += 1
        count += byte
        if byte != 255:
            break
    return count, at
