"""Clang offload bundles: the AMD code objects in a HIP library's ``.hip_fatbin`` section.

The section is a row of bundles, each at a multiple of 4096. A plain bundle is ``__CLANG_OFFLOAD_BUNDLE__``,
u64 count, then per target u64 offset, u64 size, u64 name length, name. A compressed one is ``CCOB``, u16
version (1, 2, 3), u16 method (0 zlib, 1 zstd), then sizes that grew with the version, a u64 hash and the
compressed plain bundle, of which only the first bytes are inflated: the table is all we need.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rekindle.formats.view import Malformed, View

SECTIONS = (".hip_fatbin", ".hip_fat")
# Sections of SYCL code are named for their target: spir64 for SPIR-V modules in a row, spir64_gen for machine
# code of Intel's GPUs. In a PE image the name is cut short, so the targets' names in the data tell.
SYCL = "__CLANG_OFFLOAD_BUNDLE__sycl-"
SYCL_CUT = SYCL[:8]
_SYCL_TARGETS = (b"spir64_gen", b"spir64")
# The options of the compiler that made machine code stand beside it: -device pvc,bmg,dg2
_AHEAD = re.compile(rb"-device +([0-9a-z*][0-9a-z,.:*+_-]{1,400})")
SPIRV_MAGIC = b"\x03\x02\x23\x07"
PLAIN = b"__CLANG_OFFLOAD_BUNDLE__"
COMPRESSED = b"CCOB"
ALIGN = 4096
HEAD = 1 << 16
MOST_COMPRESSED = 1 << 20
MAX_TARGETS = 1024
MAX_BUNDLES = 1_000_000
_TARGET = re.compile(r"(?:^|-)(gfx[0-9a-z]+(?:-[0-9a-z]+)*(?::[a-z0-9]+[+-])*|amdgcnspirv)$")


@dataclass(frozen=True, slots=True)
class CodeObject:
    """``target`` is ``gfx90a:xnack+``; None for the host's empty entry."""

    id: str
    target: str | None
    size: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """``form`` is plain, or e.g. ``CCOB 3 zstd``."""

    offset: int
    form: str
    objects: tuple[CodeObject, ...]


def read_bundles(data: Any, offset: int, size: int, what: str = "library") -> Iterator[Bundle]:
    """All bundles of a section. Zero padding is skipped; a size that lies is :class:`Malformed`."""
    view = View(data, what)
    if not view.inside(offset, size):
        raise Malformed(f"{what}: the offload section lies outside the file")
    end, position, count = offset + size, offset, 0
    while position + 4 <= end:
        head = bytes(data[position : min(end, position + len(PLAIN))])
        if head == PLAIN:
            objects, length = _table(view, position, end)
            yield Bundle(position, "plain", objects)
            position += length
        elif head[:4] == COMPRESSED:
            bundle, length = _compressed(view, position, end)
            yield bundle
            position += length
        else:
            # Bundles are aligned, so the next can only start at a multiple of 4096: a search byte by byte
            # over a gigabyte took 42 s.
            position = offset + ((position - offset) // ALIGN + 1) * ALIGN
            continue
        count += 1
        if count > MAX_BUNDLES:
            raise Malformed(f"{what} holds more than {MAX_BUNDLES} offload bundles")


def count_modules(data: Any, offset: int, size: int) -> int:
    """How many SPIR-V modules a section of SYCL code holds; code of another form counts as one."""
    return max(bytes(data[offset : offset + size]).count(SPIRV_MAGIC), 1) if size > 0 else 0


def sycl_targets(data: Any) -> dict[str, int]:
    """The targets of a library whose section of SYCL code has lost its name, each with one module."""
    return {name.decode(): 1 for name in _SYCL_TARGETS if data.find(b"\0" + name + b"\0") >= 0}


def ahead_of_time(data: Any) -> tuple[str, ...]:
    """Intel's devices that the SYCL code of a library was compiled for beforehand, as its compiler was told."""
    found = (name for match in _AHEAD.finditer(data) for name in match[1].decode().split(","))
    return tuple(sorted({name for name in found if name}))


def _table(view: View, start: int, end: int, *, whole: bool = True) -> tuple[tuple[CodeObject, ...], int]:
    """The targets of a plain bundle and its length. ``whole`` is False for the inflated head of one."""
    count = view.number("<Q", start + 24)
    if count > MAX_TARGETS:
        raise Malformed(f"{view.what}: an offload bundle claims {count} targets")
    position, furthest, out = start + 32, 32, []
    for _ in range(count):
        offset, size, length = view.unpack("<QQQ", position)
        if length > 4096 or (whole and start + offset + size > end):
            raise Malformed(f"{view.what}: the offload bundle at offset {start} claims more than there is")
        name = view.take(position + 24, length).decode("utf-8", "backslashreplace")
        match = _TARGET.search(name)
        out.append(CodeObject(name, match[1] if match else None, size))
        position += 24 + length
        furthest = max(furthest, offset + size)
    return tuple(out), max(furthest, position - start)


def _compressed(view: View, start: int, end: int) -> tuple[Bundle, int]:
    version, method = view.unpack("<HH", start + 4)
    if version == 1:
        total, header = None, 20
    elif version == 2:
        total, header = view.number("<I", start + 8), 24
    elif version == 3:
        total, header = view.number("<Q", start + 8), 32
    else:
        raise Malformed(f"{view.what}: a compressed offload bundle of version {version}, which is not known")
    if total is not None and not header < total <= end - start:
        raise Malformed(f"{view.what}: a compressed offload bundle claims {total} bytes")
    stop = min(end, start + (total or end - start), start + header + MOST_COMPRESSED)
    head = _inflate_head(bytes(view.data[start + header : stop]), method, view.what)
    if head[: len(PLAIN)] != PLAIN:
        raise Malformed(f"{view.what}: a compressed offload bundle holds something else")
    objects, _ = _table(View(head, view.what), 0, len(head), whole=False)
    form = f"CCOB {version} {'zstd' if method else 'zlib'}"
    # Version 1 does not say how long it is; the next bundle is found at its alignment.
    return Bundle(start, form, objects), total if total is not None else header


def _inflate_head(data: bytes, method: int, what: str) -> bytes:
    if method == 0:
        try:
            return zlib.decompressobj().decompress(data, HEAD)
        except zlib.error as error:
            raise Malformed(f"{what}: a compressed offload bundle is damaged ({error})") from error
    if method != 1:
        raise Malformed(f"{what}: an offload bundle is compressed with method {method}, which is not known")
    from rekindle.formats.zstd import ZstdError, read_zstd

    try:
        return read_zstd(data, HEAD, window_log=31)  # long-distance matching asks for large windows
    except ZstdError as error:
        raise Malformed(f"{what}: a compressed offload bundle is damaged ({error})") from error
