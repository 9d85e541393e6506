"""Clang offload bundles: the AMD code objects in a HIP library's ``.hip_fatbin`` section.

The section is a row of bundles, each at a multiple of 4096. A plain bundle is ``__CLANG_OFFLOAD_BUNDLE__``,
u64 count, then per target u64 offset, u64 size, u64 name length, name. A compressed one is ``CCOB``, u16
version (1, 2, 3), u16 method (0 zlib, 1 zstd), then sizes that grew with the version, a u64 hash (the first half of the
MD5 of what is compressed) and the compressed plain bundle. To list targets only its first bytes are inflated: the table
is all that takes.

A code object is an ELF file for AMD's machine: its flags name the chip, and a note (MessagePack) names it again and
lists the kernels with their arguments. For chips of one kind nothing but these two names differs.
"""

import hashlib
import operator
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from rekindle.formats.cubin import Face, Passed, read_symbols
from rekindle.formats.elf import Elf
from rekindle.formats.view import Malformed, View, round_up
from rekindle.model.toml import read_beside

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
# A bundle of 25 targets has 19 MB inflated; one that claims far more costs minutes.
MAX_INFLATED = 1 << 30
_WINDOW_LOG = 27
# Of a compressed bundle, by its version: the length of the whole, that inflated, the hash; version 1 says no length.
_SIZES = {2: struct.Struct("<IIQ"), 3: struct.Struct("<QQQ")}
# Of a code object: ELF's machine, the flags' lowest byte by chip, the note with metadata, names with the unit's id.
_MACHINE = 224
_CHIPS = {number: chip for chip, number in read_beside(__file__, "amd_chips.toml", dict[str, Any])["chips"].items()}
_FLAGS_AT = 48
# What AMD's standard demands of each argument and kernel: a list that lacks a field is not believed in the others.
_ARGUMENT, _KERNEL = operator.itemgetter(".offset", ".size"), operator.itemgetter(".kernarg_segment_size", ".name")
_NOTE, _METADATA, _DYNAMIC_SYMBOLS, _OBJECT_SYMBOL = 7, 32, 11, 1
# What the compiler and its headers keep for themselves: the standard of C++ decides whether it is there.
_OWN_NAMES = re.compile(r"__hip_cuid_|_ZN17__HIP_Coordinates")
_UNIT_ID = re.compile(r"__hip_cuid_([0-9a-zA-Z_]+)|(?:\.|__)(?:intern|static)(?:\.|__)([0-9a-f]{8,})")
_TARGET = re.compile(r"(?:^|-)(gfx[0-9a-z]+(?:-[0-9a-z]+)*(?::[a-z0-9]+[+-])*|amdgcnspirv)$")


@dataclass(frozen=True, slots=True)
class CodeObject:
    """``target`` is ``gfx90a:xnack+``; None for the host's empty entry. ``offset`` counts from the plain bundle."""

    id: str
    target: str | None
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class Bundle:
    """``form`` is plain, or e.g. ``CCOB 3 zstd``; ``size`` is what it takes in the file (0: it does not say)."""

    offset: int
    form: str
    objects: tuple[CodeObject, ...]
    size: int = 0


def read_bundles(data: Any, offset: int, size: int, what: str = "library") -> Iterator[Bundle]:
    """All bundles of a section. Zero padding is skipped; a size that lies is :class:`Malformed`."""
    view = View(data, what)
    if not view.inside(offset, size):
        raise Malformed(f"{what}: the offload section lies outside the file")
    end, position, count = offset + size, offset, 0
    while position + 4 <= end:
        head = bytes(data[position : min(end, position + len(PLAIN))])
        if head == PLAIN:
            objects, length = _read_table(view, position, end)
            bundle = Bundle(position, "plain", objects, length)
        elif head[:4] == COMPRESSED:
            bundle, length = _read_compressed(view, position, end)
        else:
            # Bundles are aligned, so the next starts at a multiple of 4096; byte by byte a gigabyte took 42 s.
            position = offset + ((position - offset) // ALIGN + 1) * ALIGN
            continue
        yield bundle
        position += length
        count += 1
        if count > MAX_BUNDLES:
            raise Malformed(f"{what} holds more than {MAX_BUNDLES} offload bundles")


def read_objects(data: Any, bundle: Bundle, what: str = "library") -> dict[str, bytes]:
    """The code objects of a bundle by their ids, inflated."""
    if not bundle.size:
        raise Malformed(f"{what}: the compressed offload bundle at offset {bundle.offset} does not say how long it is")
    raw = bytes(data[bundle.offset : bundle.offset + bundle.size])
    if bundle.form != "plain":
        sizes = _SIZES[int(bundle.form.split()[1])]
        header = 8 + sizes.size
        size = View(raw, what).unpack(sizes.format, 8)[1]
        if not 0 < size <= MAX_INFLATED:
            raise Malformed(f"{what}: a compressed offload bundle claims {size} bytes inflated")
        raw = _inflate_head(raw[header:], 1 if bundle.form.endswith("zstd") else 0, what, size)
        if len(raw) != size:
            raise Malformed(f"{what}: a compressed offload bundle is damaged ({len(raw)} of {size} bytes)")
    view = View(raw, what)
    objects, _ = _read_table(view, 0, len(raw))
    return {each.id: view.take(each.offset, each.size) for each in objects}


def write_bundle(objects: Mapping[str, bytes], form: str) -> bytes:
    """A bundle of these code objects, in a form that was read; each lies at a multiple of 4096, as clang puts them."""
    names = {name: name.encode() for name in objects}
    at = 32 + sum(24 + len(name) for name in names.values())
    table, body = bytearray(PLAIN + struct.pack("<Q", len(objects))), bytearray()
    start = round_up(at, ALIGN)
    for name, content in objects.items():
        body += bytes(-len(body) % ALIGN)
        table += struct.pack("<QQQ", start + len(body), len(content), len(names[name])) + names[name]
        body += content
    raw = bytes(table + bytes(start - at) + body)
    if form == "plain":
        return raw
    _, version, method = form.split()
    if method == "zstd":
        from rekindle.formats.zstd import write_zstd

        # Code for neighbours is almost the same: what repeats lies as far apart as one object is long.
        packed = write_zstd(raw, window_log=_WINDOW_LOG)
    else:
        packed = zlib.compress(raw, 9)
    sizes = _SIZES[int(version)]
    digest = int.from_bytes(hashlib.md5(raw, usedforsecurity=False).digest()[:8], "little")
    head = COMPRESSED + struct.pack("<HH", int(version), 1 if method == "zstd" else 0)
    return head + sizes.pack(8 + sizes.size + len(packed), len(raw), digest) + packed


def count_modules(data: Any, offset: int, size: int) -> int:
    """How many SPIR-V modules a section of SYCL code holds; code of another form counts as one."""
    return max(bytes(data[offset : offset + size]).count(SPIRV_MAGIC), 1) if size > 0 else 0


def sycl_targets(data: Any) -> dict[str, int]:
    """The targets of a library whose section of SYCL code has lost its name, each with one module."""
    return {name.decode(): 1 for name in _SYCL_TARGETS if data.find(b"\0" + name + b"\0") >= 0}


def ahead_of_time(data: Any) -> tuple[str, ...]:
    """Intel's devices that the SYCL code of a library was compiled for beforehand, as its compiler was told."""
    names = (name for match in _AHEAD.finditer(data) for name in match[1].decode().split(","))
    return tuple(sorted({name for name in names if name}))


def _read_table(view: View, start: int, end: int, *, whole: bool = True) -> tuple[tuple[CodeObject, ...], int]:
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
        out.append(CodeObject(name, match[1] if match else None, size, offset))
        position += 24 + length
        furthest = max(furthest, offset + size)
    return tuple(out), max(furthest, position - start)


def _read_compressed(view: View, start: int, end: int) -> tuple[Bundle, int]:
    version, method = view.unpack("<HH", start + 4)
    sizes = _SIZES.get(version)
    if sizes is None and version != 1:
        raise Malformed(f"{view.what}: a compressed offload bundle of version {version}, which is not known")
    total, header = (view.unpack(sizes.format, start + 8)[0], 8 + sizes.size) if sizes else (None, 20)
    if total is not None and not header < total <= end - start:
        raise Malformed(f"{view.what}: a compressed offload bundle claims {total} bytes")
    stop = min(end, start + (total or end - start), start + header + MOST_COMPRESSED)
    head = _inflate_head(bytes(view.data[start + header : stop]), method, view.what)
    if head[: len(PLAIN)] != PLAIN:
        raise Malformed(f"{view.what}: a compressed offload bundle holds something else")
    objects, _ = _read_table(View(head, view.what), 0, len(head), whole=False)
    form = f"CCOB {version} {'zstd' if method else 'zlib'}"
    # Version 1 does not say how long it is; the next bundle is found at its alignment.
    return Bundle(start, form, objects, total or 0), total if total is not None else header


def _inflate_head(data: bytes, method: int, what: str, size: int = HEAD) -> bytes:
    from rekindle.formats.zstd import ZstdError, read_zstd

    try:
        if method == 0:
            return zlib.decompressobj().decompress(data, size)
        if method == 1:
            return read_zstd(data, size, window_log=31)  # long-distance matching asks for large windows
    except (zlib.error, ZstdError) as error:
        raise Malformed(f"{what}: a compressed offload bundle is damaged ({error})") from error
    raise Malformed(f"{what}: an offload bundle is compressed with method {method}, which is not known")


def object_chip(image: bytes) -> str | None:
    """The chip that a code object is for (``gfx1030``); None where it is none, or for a chip that is not known."""
    if len(image) < 64 or image[:6] != b"\x7fELF\x02\x01" or int.from_bytes(image[18:20], "little") != _MACHINE:
        return None
    return _CHIPS.get(image[_FLAGS_AT])


def rename_chip(image: bytes, chip: str) -> bytes:
    """The same code object for another chip of its kind: its flags and its metadata name the other one."""
    own = object_chip(image)
    number = next((number for number, name in _CHIPS.items() if name == chip), None)
    if own is None or number is None or len(own) != len(chip):
        raise Malformed(f"a code object for {own or 'an unknown chip'} cannot be named {chip}")
    before, after = (f"amdgcn-amd-amdhsa--{name}".encode() for name in (own, chip))
    if image.count(before) != 1:
        raise Malformed(f"a code object for {own} names its chip {image.count(before)} times instead of once")
    renamed = bytearray(image.replace(before, after))
    renamed[_FLAGS_AT] = number
    return bytes(renamed)


def read_object_face(image: bytes, what: str = "code object") -> Face:
    """Kernels with what is passed to them, and variables, of a code object; lies are :class:`Malformed`."""
    elf = Elf(image, what)
    try:
        metadata = msgspec.msgpack.decode(_find_metadata(elf))
        kernels: dict[str, Passed] = {}
        for kernel in metadata["amdhsa.kernels"]:
            rows = enumerate(kernel.get(".args", ()))
            mine = [(number, row) for number, row in rows if not row[".value_kind"].startswith("hidden_")]
            passed = [(number, _ARGUMENT(row)) for number, row in mine]
            _, name = _KERNEL(kernel)
            if not isinstance(name, str):
                raise TypeError("a kernel's name is no text")
            kernels[name] = tuple((number, size) for number, (_, size) in passed)
    except (msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Malformed(f"{what}: its list of kernels cannot be read ({error})") from error
    symbols = list(read_symbols(elf, _DYNAMIC_SYMBOLS))
    sizes = {name: size for name, kind, _, size in symbols if kind == _OBJECT_SYMBOL and not name.endswith(".kd")}
    variables = {name: size for name, size in sizes.items() if not _OWN_NAMES.match(name)}
    return Face(kernels, variables, tuple(name for name, *_ in symbols))


def unit_id(names: tuple[str, ...]) -> str | None:
    """The compiler's id of the unit (clang's ``-cuid``), told by its own symbol or by any internal name."""
    match = next((hit for name in names if (hit := _UNIT_ID.search(name))), None)
    return (match[1] or match[2]) if match else None


def _find_metadata(elf: Elf) -> bytes:
    for section in elf.sections:
        at, size = elf.content(section) if section.kind == _NOTE else (0, 0)
        end = at + size
        while at + 12 <= end:
            name, length, kind = elf.view.unpack("<III", at)
            at += 12 + (name + 3) // 4 * 4
            if kind == _METADATA:
                return elf.view.take(at, length)
            at += (length + 3) // 4 * 4
    raise Malformed(f"{elf.view.what} has no metadata of AMD's kind")
