"""Hostile PE and ELF images: small files whose tables claim much, point at themselves or repeat one name for ever."""

from __future__ import annotations

import struct
from collections.abc import Callable

from binaries import make_elf, make_pe

EXPORT, IMPORT, DELAY_IMPORT, EXCEPTION = 0, 1, 13, 3
CODE = bytes.fromhex("c5f458c2c3") * 8


def _crowded() -> bytes:
    """65,535 sections, and a table of exports that must be looked up in them."""
    plain = bytearray(_many_exports(60_000))
    start = struct.unpack_from("<I", plain, 0x3C)[0]
    optional = struct.unpack_from("<H", plain, start + 20)[0]
    rows = 65_535
    table = start + 24 + optional
    kept = [plain[table + 40 * i : table + 40 * (i + 1)] for i in range(2)]
    filler = struct.pack("<8sIIIIIIHHI", b".x", 1, 0x7000_0000, 1, 0, 0, 0, 0, 0, 0x40000040)
    shift = 40 * rows
    for row in kept:
        struct.pack_into("<I", row, 20, struct.unpack_from("<I", row, 20)[0] + shift)
    struct.pack_into("<H", plain, start + 6, rows)
    return bytes(plain[:table]) + filler * (rows - 2) + b"".join(kept) + bytes(plain[table + 80 :]) + b"\0" * shift


def _many_exports(count: int, name: bytes = b"f") -> bytes:
    """Every export has the same name, which is told once for each of them."""
    at = 0x2000
    functions, names, ordinals, text = at + 40, at + 44, at + 44 + 4 * count, at + 44 + 6 * count
    table = struct.pack("<IIHHIIIIIII", 0, 0, 0, 0, text, 1, 1, count, functions, names, ordinals)
    data = table + struct.pack("<I", 0x1000) + struct.pack("<I", text) * count + b"\0\0" * count + name + b"\0"
    return make_pe({".edata": data}, more={EXPORT: (at, len(data))})


def _shared_imports(libraries: int, rows: int, name: bytes = b"f") -> bytes:
    """Thousands of libraries whose functions are all listed in one and the same place."""
    base = 0x2000
    lookup = 20 * (libraries + 1)
    text = lookup + 8 * (rows + 1)
    row = struct.pack("<5I", base + lookup, 0, 0, base + text + 2, base + lookup)
    data = row * libraries + bytes(20) + struct.pack("<Q", base + text) * rows + bytes(8) + b"\0\0" + name + b"\0"
    return make_pe({".idata2": data, ".text": CODE}, more={IMPORT: (base, len(data))})


def _pdata(count: int) -> bytes:
    """A function table that names one piece of code a million times."""
    return make_pe(
        {".text": CODE, ".pdata": struct.pack("<III", 0x2000, 0x2028, 0) * count},
        more={EXCEPTION: (0x3000, 12 * count)},
    )


def _pointing_at_itself() -> bytes:
    image = bytearray(make_pe({".text": CODE}))
    struct.pack_into("<I", image, 0x3C, 0)
    return bytes(image)


KINDS: dict[str, Callable[[], bytes]] = {
    "PE with 65,535 sections": _crowded,
    "PE with 200,000 exports of one long name": lambda: _many_exports(200_000, b"f" * 60_000),
    "PE with 1,000,000 exports": lambda: _many_exports(1_000_000),
    "PE with 260,000 exports": lambda: _many_exports(260_000),
    "PE with 4000 libraries of 200,000 functions in one list": lambda: _shared_imports(4000, 200_000),
    "PE with imports of one long name": lambda: _shared_imports(1, 200_000, b"f" * 60_000),
    "PE with a function table of a million equal rows": lambda: _pdata(1_000_000),
    "PE whose header is itself": _pointing_at_itself,
    "PE cut after its header": lambda: make_pe({".text": CODE})[:0x1F0],
    "PE with imports without end": lambda: make_pe({".text": b"\x01" * 4096}, more={IMPORT: (0x2000, 4096)}),
    "PE with delayed imports without end": lambda: make_pe(
        {".text": b"\x01" * 4096}, more={DELAY_IMPORT: (0x2000, 4096)}
    ),
    "ELF cut after its header": lambda: make_elf()[:80],
}
