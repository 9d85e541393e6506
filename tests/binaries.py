"""Tiny well-formed binaries made from scratch, so that no binary lies in the repository.

``make_elf``, ``make_pe``, ``make_fatbin`` and ``make_wheel`` give bytes the readers must accept; the tests
then break them one way at a time.
"""

from __future__ import annotations

import base64
import hashlib
import io
import struct
import zipfile
from collections.abc import Mapping, Sequence

LZ4, ZSTD, SPECIFIC, FAMILY = 0x2000, 0x8000, 0x100000, 0x200000


def make_entry(kind: int, arch: int, flags: int = 0x11, payload: bytes = b"\0" * 16, header: int = 64) -> bytes:
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x101, header, len(payload), len(payload), 64, 7, 1, arch, 0, 0, flags, 0, 0
    )
    return head.ljust(header, b"\0") + payload


def make_fatbin(*containers: Sequence[bytes]) -> bytes:
    out = b""
    for entries in containers:
        body = b"".join(entries)
        out += struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
        out += b"\0" * (-len(out) % 8)
    return out


def make_elf(
    sections: Mapping[str, bytes] | None = None,
    *,
    machine: int = 62,
    needed: Sequence[str] = (),
    soname: str | None = None,
    rpath: str | None = None,
    versions: Mapping[str, Sequence[str]] | None = None,
) -> bytes:
    """A shared library whose file offsets equal its addresses. ``.text``-like names become executable."""
    strings = bytearray(b"\0")

    def string(text: str) -> int:
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text.encode()) - 1

    tags = [(1, string(name)) for name in needed]
    if soname:
        tags.append((14, string(soname)))
    if rpath:
        tags.append((29, string(rpath)))
    verneed = b""
    items = list((versions or {}).items())
    for number, (library, names) in enumerate(items):
        size = 16 + 16 * len(names)
        verneed += struct.pack("<HHIII", 1, len(names), string(library), 16, 0 if number == len(items) - 1 else size)
        for i, name in enumerate(names):
            verneed += struct.pack("<IHHII", 0, 0, i + 2, string(name), 0 if i == len(names) - 1 else 16)
    blobs: list[tuple[str, int, int, bytes]] = [(".dynstr", 3, 2, bytes(strings))]
    if verneed:
        blobs.append((".gnu.version_r", 0x6FFFFFFE, 2, verneed))
    blobs += [(name, 1, 6 if name.startswith(".text") else 2, data) for name, data in (sections or {}).items()]
    offset, placed = 64 + 56 * 2, []
    for name, kind, flags, data in blobs:
        offset += -offset % 16
        placed.append((name, kind, flags, offset, data))
        offset += len(data)
    where = {name: at for name, _, _, at, _ in placed}
    tags += [(5, where[".dynstr"]), (10, len(strings))]
    if verneed:
        tags += [(0x6FFFFFFE, where[".gnu.version_r"]), (0x6FFFFFFF, len(items))]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in [*tags, (0, 0)])
    offset += -offset % 16
    placed.append((".dynamic", 6, 3, offset, dynamic))
    dynamic_at, offset = offset, offset + len(dynamic)
    labels = b"\0"
    rows = [struct.pack("<IIQQQQIIQQ", *([0] * 10))]
    placed.append((".shstrtab", 3, 0, offset, b""))
    for name, kind, flags, at, data in placed:
        index, labels = len(labels), labels + name.encode() + b"\0"
        size = len(data) if name != ".shstrtab" else len(labels)
        rows.append(struct.pack("<IIQQQQIIQQ", index, kind, flags, at, at, size, 0, 0, 1, 0))
    table = offset + len(labels)
    table += -table % 8
    image = bytearray(table)
    for _, _, _, at, data in placed:
        image[at : at + len(data)] = data
    image[offset : offset + len(labels)] = labels
    header = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, table, 0, 64, 56, 2, 64, len(rows), len(rows) - 1)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, table, table, 4096)
    dyn = struct.pack("<IIQQQQQQ", 2, 6, dynamic_at, dynamic_at, dynamic_at, len(dynamic), len(dynamic), 8)
    image[: len(header)] = header
    image[64 : 64 + 112] = load + dyn
    return bytes(image) + b"".join(rows)


def make_pe(
    sections: Mapping[str, bytes] | None = None,
    imports: Sequence[str] = (),
    machine: int = 0x8664,
    more: Mapping[int, tuple[int, int]] | None = None,
) -> bytes:
    """A 64-bit DLL; every section starts at an RVA equal to 0x1000 times its number. ``more``: data directories."""
    idata = b""
    if imports:
        names_at = 20 * (len(imports) + 1)
        rows, names = b"", b""
        for name in imports:
            rows += struct.pack("<IIIII", 1, 0, 0, 0x1000 + names_at + len(names), 1)
            names += name.encode() + b"\0"
        idata = rows + b"\0" * 20 + names
    parts = [(".idata", idata), *(sections or {}).items()]
    header_size = 0x400
    offset, rva, table, body = header_size, 0x1000, b"", b""
    for name, data in parts:
        padded = data + b"\0" * (-len(data) % 512)
        flags = 0x60000020 if name.startswith(".text") else 0x40000040
        table += struct.pack("<8sIIIIIIHHI", name.encode()[:8], len(data), rva, len(padded), offset, 0, 0, 0, 0, flags)
        body += padded
        offset += len(padded)
        rva += 0x1000 * max(1, -(-len(data) // 0x1000))
    directories = [(0, 0)] * 16
    if imports:
        directories[1] = (0x1000, len(idata))
    for number, entry in (more or {}).items():
        directories[number] = entry
    optional = struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, 0, 0, 0, 0x1000) + struct.pack("<Q", 0x180000000)
    optional = (optional + struct.pack("<II", 0x1000, 512)).ljust(56, b"\0") + struct.pack("<II", rva, header_size)
    optional = optional.ljust(108, b"\0") + struct.pack("<I", 16)
    optional += b"".join(struct.pack("<II", *entry) for entry in directories)
    dos = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    coff = b"PE\0\0" + struct.pack("<HHIIIHH", machine, len(parts), 0, 0, 0, len(optional), 0x2022)
    return (dos + coff + optional + table).ljust(header_size, b"\0") + body


def make_wheel(
    files: Mapping[str, bytes], *, name: str = "demo", version: str = "1.0", tag: str = "cp311-cp311-linux_x86_64"
) -> bytes:
    """A wheel with honest METADATA, WHEEL and RECORD."""
    info = f"{name}-{version}.dist-info"
    all_files = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in all_files.items())
    all_files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in all_files.items():
            archive.writestr(path, data)
    return out.getvalue()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
