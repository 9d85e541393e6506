"""Libraries and images with device code, made from scratch: what graft reads, moves and adds to."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from binaries import make_entry, make_fatbin, make_pe

PAGE = 0x1000
NAMES = ("", ".rela.dyn", ".relr.dyn", ".rodata", ".nv_fatbin", ".eh_frame", ".nvFatBinSegment", ".shstrtab")
RELATIVE = {62: 8, 183: 1027}
WRAPPER = 0x466243B1


def make_cubin(
    arch: int = 80,
    kernels: Mapping[str, Sequence[int]] | None = None,
    variables: Mapping[str, int] | None = None,
    *,
    abi: int = 8,
    unit: str | None = None,
    first_offset: int = 0,
    code: bytes = b"\x11" * 32,
) -> bytes:
    """A cubin: ``kernels`` with the sizes of their parameters, ``variables`` with theirs, and its ``unit``."""
    kernels = {"scale": (8, 4)} if kernels is None else kernels
    sections: list[tuple[str, int, bytes, int]] = [("", 0, b"", 0)]
    symbols, strings = [bytes(24)], b"\0"

    def symbol(name: str, kind: int, other: int, size: int) -> None:
        nonlocal strings
        symbols.append(struct.pack("<IBBHQQ", len(strings), 0x10 | kind, other, 1, 0, size))
        strings += name.encode() + b"\0"

    for name, sizes in kernels.items():
        info, offset = b"", first_offset
        for ordinal, size in enumerate(sizes):
            info += struct.pack("<BBHIHHI", 4, 0x17, 12, 0, ordinal, offset, size << 18 | 0x1FF00)
            offset += size
        info += struct.pack("<BBH", 3, 0x19, offset)
        sections += [(f".text.{name}", 1, code, 0), (f".nv.info.{name}", 0x70000000, info, 0)]
        symbol(name, 2, 0x10, len(code))
    for name, size in (variables or {}).items():
        symbol(name, 1, 0, size)
    if unit:
        inner = f"_INTERNAL_{unit}"
        symbol(f"_ZN{len(inner)}{inner}4wordE", 1, 0, 1)
    sections += [(".symtab", 2, b"".join(symbols), len(sections) + 1), (".strtab", 3, strings, 0)]
    flags = arch << 8 if abi == 8 else arch
    return device_elf(sections, 190, b"\x41" + bytes([abi]), flags)


def make_code_object(
    chip: int = 0x36,
    name: str = "gfx1030",
    kernels: Mapping[str, Sequence[int]] | None = None,
    variables: Mapping[str, int] | None = None,
    *,
    cuid: str | None = None,
    code: bytes = b"\x11" * 32,
) -> bytes:
    """AMD's code object: ``chip`` in its flags, its ``name`` and its ``kernels`` (sizes of their arguments) in a note,
    ``variables`` among its symbols."""
    kernels = {"scale": (8, 4)} if kernels is None else kernels
    rows = []
    for kernel, sizes in kernels.items():
        args = [{".offset": 8 * i, ".size": size, ".value_kind": "by_value"} for i, size in enumerate(sizes)]
        hidden = {".offset": 8 * len(args), ".size": 8, ".value_kind": "hidden_global_offset_x"}
        told = {".name": kernel, ".kernarg_segment_size": 8 * len(args) + 8, ".args": [*args, hidden]}
        rows.append(told | {".symbol": f"{kernel}.kd"})
    metadata = msgspec.msgpack.encode({"amdhsa.kernels": rows, "amdhsa.target": f"amdgcn-amd-amdhsa--{name}"})
    note = struct.pack("<III", 7, len(metadata), 32) + b"AMDGPU\0\0" + metadata
    symbols, strings = [bytes(24)], b"\0"
    objects = {f"{kernel}.kd": 64 for kernel in kernels} | dict(variables or {})
    for label, size in (objects | ({f"__hip_cuid_{cuid}": 1} if cuid else {})).items():
        symbols.append(struct.pack("<IBBHQQ", len(strings), 0x11, 0, 1, 0, size))
        strings += label.encode() + b"\0"
    sections = [("", 0, b"", 0), (".note", 7, note, 0), (".dynsym", 11, b"".join(symbols), 3)]
    sections += [(".dynstr", 3, strings, 0), (".text", 1, code, 0)]
    return device_elf(sections, 224, b"\x40\x02", chip)


def device_elf(sections: list[tuple[str, int, bytes, int]], machine: int, abi: bytes, flags: int) -> bytes:
    """An image of (name, kind, content, link) sections."""
    labels = b"".join(name.encode() + b"\0" for name in [*(row[0] for row in sections), ".shstrtab"])
    sections.append((".shstrtab", 3, labels, 0))
    body, rows, label = bytearray(64), b"", 0
    for name, kind, data, link in sections:
        body += bytes(-len(body) % 8)
        rows += struct.pack("<IIQQQQIIQQ", label, kind, 0, 0, len(body), len(data), link, 0, 1, 0)
        label += len(name) + 1
        body += data
    body += bytes(-len(body) % 8)
    head = b"\x7fELF\x02\x01\x01" + abi + bytes(7)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, len(body), flags, 64, 56, 0, 64, len(sections), len(sections) - 1
    )
    body[:64] = head
    return bytes(body) + rows


def make_gpu_library(
    containers: Sequence[Sequence[bytes]] | None = None,
    *,
    machine: int = 62,
    relr: bool = False,
    between: int = 5 * PAGE,
    pointers: Sequence[int] | None = None,
    bundles: Sequence[bytes] = (),
) -> bytes:
    """A shared library laid out as linkers do it: headers and relocations, read-only data with the containers in the
    middle, then data with one wrapper per container. ``between`` bytes of zeros fill the section up, so that whole
    pages of it can go; ``pointers``: where the wrappers lead, as offsets into the section. ``bundles``: AMD's code
    instead, each at a page of its own."""
    names = tuple({".nv_fatbin": ".hip_fatbin"}.get(name, name) for name in NAMES) if bundles else NAMES
    fat = make_fatbin(*(containers if containers is not None else [[make_entry(2, 80, payload=make_cubin())]]))
    starts = [at for at in range(0, len(fat), 8) if fat[at : at + 4] == b"\x50\xed\x55\xba"]
    if bundles:
        fat, starts = b"", []
        for bundle in bundles:
            starts.append(len(fat))
            fat += bundle + bytes(-len(bundle) % PAGE)
    fat += bytes(between)
    starts = list(pointers) if pointers is not None else starts
    rodata = b"read only".ljust(PAGE if bundles else 64, b".")
    at_fat = PAGE + len(rodata)
    tail_at = at_fat + len(fat)
    tail = b"frames" * 10
    data_at = -(-(tail_at + len(tail)) // PAGE) * PAGE
    data_address = data_at + PAGE
    wrappers = b"".join(struct.pack("<IIQQ", WRAPPER, 1, at_fat + start if relr else 0, 0) for start in starts)
    slots = [data_address + 24 * i + 8 for i in range(len(starts))]
    rela = b"" if relr else b"".join(
        struct.pack("<QQq", slot, RELATIVE[machine], at_fat + start) for slot, start in zip(slots, starts, strict=True)
    )  # fmt: skip
    packed = b""
    if relr and slots:
        bits = sum(1 << ((slot - slots[0]) // 8) for slot in slots[1:21])
        packed = struct.pack("<QQ", slots[0], bits | 1) if bits else struct.pack("<Q", slots[0])
    labels = b"".join(name.encode() + b"\0" for name in names)
    parts: list[tuple[str, int, int, int, int, bytes]] = [
        (".rela.dyn", 4, 2, 0x200, 0x200, rela),
        (".relr.dyn", 19, 2, 0x800, 0x800, packed),
        (".rodata", 1, 2, PAGE, PAGE, rodata),
        (names[4], 1, 2, at_fat, at_fat, fat),
        (".eh_frame", 1, 2, tail_at, tail_at, tail),
        (".nvFatBinSegment", 1, 3, data_address, data_at, wrappers),
        (".shstrtab", 3, 0, 0, data_at + len(wrappers), labels),
    ]
    end = data_at + len(wrappers) + len(labels)
    table = -(-end // 8) * 8
    image = bytearray(table)
    rows = bytes(64)
    for name, kind, flags, address, offset, data in parts:
        image[offset : offset + len(data)] = data
        index = sum(len(one) + 1 for one in names[: names.index(name)])
        rows += struct.pack("<IIQQQQIIQQ", index, kind, flags, address, offset, len(data), 0, 0, 8, 0)
    segments = [
        (1, 4, 0, 0, PAGE, PAGE, PAGE),
        (1, 4, PAGE, PAGE, tail_at + len(tail) - PAGE, tail_at + len(tail) - PAGE, PAGE),
        (1, 6, data_at, data_address, len(wrappers), len(wrappers) + 64, PAGE),
        (0x6474E551, 6, 0, 0, 0, 0, 16),
    ]
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    count = len(parts) + 1
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, table, 0, 64, 56, len(segments), 64, count, count - 1)
    image[:64] = head
    for i, (kind, flags, offset, address, size, memory, align) in enumerate(segments):
        image[64 + 56 * i : 120 + 56 * i] = struct.pack(
            "<IIQQQQQQ", kind, flags, offset, address, address, size, memory, align
        )
    return bytes(image) + rows


def ptx_entry(arch: int = 80, text: bytes = b".version 8.0\n.target sm_80\n", options: bytes = b"") -> bytes:
    """PTX, not compressed, with what ptxas was told beside it."""
    header = 64
    more = b""
    if options:
        more = (struct.pack("<II", 72, len(options)) + options).ljust(-(-(8 + len(options)) // 8) * 8, b"\0")
        header += len(more)
    plain = make_entry(1, arch, 0x11, payload=text.ljust(-(-len(text) // 8) * 8, b"\0"), header=header)
    return plain[:64] + more + plain[64 + len(more) :] if more else plain


def write_library(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def make_gpu_dll(containers: Sequence[Sequence[bytes]], *, base: int = 0x180000000) -> bytes:
    """A Windows library: the containers, one wrapper each that leads to it, and the relocations of those pointers."""
    content, wrappers = b"", b""
    for entries in containers:
        content += bytes(-len(content) % 8)
        wrappers += struct.pack("<IIQQ", WRAPPER, 1, base + 0x2000 + len(content), 0)
        content += make_fatbin(entries)
    second = 0x2000 + 0x1000 * max(1, -(-len(content) // 0x1000))
    slots = [24 * number + 8 for number in range(len(containers))]
    rows = b"".join(struct.pack("<H", 10 << 12 | slot) for slot in slots)
    rows += bytes(-len(rows) % 4)
    relocations = struct.pack("<II", second, 8 + len(rows)) + rows
    sections = {".nv_fatb": content, ".nvFatBi": wrappers, ".reloc": relocations}
    return make_pe(sections, more={5: (second + 0x1000, len(relocations))})
