"""The hostile wheels: each made on the spot by name, small on disk and costly or dangerous to whoever believes it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tiny_wheels import hash_row

NAME = "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
INFO = "torch-2.6.0.dist-info"
_PARTS = {
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
    "torch/__init__.py": b"",
}


def wheel(files: dict[str, bytes], *, record: bytes | None = None, infos: list[zipfile.ZipInfo] | None = None) -> bytes:
    members = {**_PARTS, **files}
    rows = "".join(hash_row(name, data) for name, data in members.items()) + f"{INFO}/RECORD,,\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        for info in infos or ():
            archive.writestr(info, b"x")
        archive.writestr(f"{INFO}/RECORD", rows.encode() if record is None else record)
    return out.getvalue()


def _raw(entries: list[tuple[bytes, int, int, int, int]], body: bytes, said: int | None = None) -> bytes:
    """A zip from raw parts: (name, offset, stored, size, crc) per entry of the directory."""
    directory = bytearray()
    for name, offset, stored, size, crc in entries:
        directory += struct.pack(
            "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 0x21, crc, stored, size, len(name), 0, 0, 0, 0, 0, offset
        )
        directory += name
    count = len(entries) if said is None else said
    end = b""
    if count > 0xFFFF:
        end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), len(body))
        end += struct.pack("<4sLQL", b"PK\x06\x07", 0, len(body) + len(directory), 1)
    short = min(count, 0xFFFF)
    end += struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, short, short, len(directory), len(body), 0)
    return body + bytes(directory) + end


def _packed_zeros(size: int) -> tuple[bytes, int]:
    """(zeros deflated, their checksum): made once, since making them costs more than refusing them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    plain = bytes(size)
    return packer.compress(plain) + packer.flush(), zlib.crc32(plain)


def overlapping(count: int = 1500, size: int = 20 << 20) -> bytes:
    """Every entry of the directory points at the same compressed bytes."""
    packed, crc = _packed_zeros(size)
    head = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0x21, crc, len(packed), size, 1, 0)
    return _raw([(f"torch/{n}.so".encode(), 0, len(packed), size, crc) for n in range(count)], head + b"a" + packed)


def zeros(count: int = 200, size: int = 5 << 20) -> bytes:
    """Honest entries, each with its own bytes, that inflate a thousand times."""
    packed, crc = _packed_zeros(size)
    body, entries = bytearray(), []
    for name in (f"torch/{n}.so".encode() for n in range(count)):
        entries.append((name, len(body), len(packed), size, crc))
        body += struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0x21, crc, len(packed), size, len(name), 0)
        body += name + packed
    return _raw(entries, bytes(body))


def many(count: int, said: int | None = None, *, double: bool = False) -> bytes:
    head = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 0x21, 0, 0, 0, 1, 0) + b"a"
    body = head * count if count < 100_000 else head
    step = len(head) if count < 100_000 else 0
    entries = [(b"%x" % n, n * step, 0, 0, 0) for n in range(count)]
    if double:
        entries[-1] = (b"0", *entries[-1][1:])
    return _raw(entries, body, said)


def _linked() -> bytes:
    info = zipfile.ZipInfo("torch/link.so")
    info.external_attr = 0o120777 << 16
    return wheel({}, infos=[info])


def _device() -> bytes:
    info = zipfile.ZipInfo("torch/null")
    info.external_attr = 0o020666 << 16
    return wheel({}, infos=[info])


def _method(number: int) -> bytes:
    raw = bytearray(wheel({"torch/x.so": b"abc"}))
    for magic, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = raw.find(magic)
        while place >= 0:
            struct.pack_into("<H", raw, place + at, number)
            place = raw.find(magic, place + 4)
    return bytes(raw)


def _record(rows: bytes) -> bytes:
    good = "".join(hash_row(name, data) for name, data in _PARTS.items()).encode()
    return wheel({}, record=good + rows)


# Costly ones: (maker, does it take long to make)
COSTLY: dict[str, Callable[[], bytes]] = {
    "overlapping entries": overlapping,
    "60,000 names, one twice": lambda: many(60_000, double=True),
    "300,000 members": lambda: many(300_000),
    "1,500,000 entries, said to be 7": lambda: many(1_500_000, said=7),
    "RECORD of 3,000,000 rows": lambda: _record(b"a,sha256=x,1\n" * 3_000_000),
    "RECORD of different rows": lambda: _record(b"".join(b"%x,,\n" % n for n in range(1_000_000))),
    "METADATA of 60 MB": lambda: wheel({f"{INFO}/METADATA": b"Name: torch\nVersion: 2.6.0\n" + b"X: y\n" * 12_000_000}),
    "200 files of zeros": zeros,
}
# Dangerous or damaged ones: small, and each must be one line and exit 2 for verbs that carry a wheel on.
ODD: dict[str, Callable[[], bytes]] = {
    "a RECORD field of 200,000 letters": lambda: _record(b"a" * 200_000 + b",sha256=x,1\n"),
    "a size of 5000 digits": lambda: _record(b"torch/x,sha256=x," + b"9" * 5000 + b"\n"),
    "RECORD with CR only": lambda: wheel({}, record=b"a,sha256=x,1\rb,sha256=y,2\r"),
    "a member called .": lambda: wheel({"./": b""}),
    "a member called a/./b": lambda: wheel({"torch/./b": b"x"}),
    "an empty name": lambda: _raw([(b"", 0, 0, 0, 0)], b"PK\x03\x04" + bytes(26)),
    "METADATA that is no UTF-8": lambda: wheel({f"{INFO}/METADATA": b"Name: \xff\xfe\nVersion: \x80\n"}),
    "compression method 99": lambda: _method(99),
    "compression method 12": lambda: _method(12),
    "a link": _linked,
    "a device": _device,
    "names one letter's case apart": lambda: wheel({"torch/A.so": b"x", "torch/a.so": b"y"}),
    "names equal on macOS": lambda: wheel({"torch/\u00e9.so": b"x", "torch/e\u0301.so": b"y"}),
    "a file that is a folder": lambda: wheel({"torch/x": b"x", "torch/x/y": b"y"}),
    "a name that climbs": lambda: wheel({"../evil.py": b"x"}),
    "an absolute name": lambda: wheel({"/etc/evil": b"x"}),
    "a drive": lambda: wheel({"C:/evil": b"x"}),
    "a backslash": lambda: wheel({"torch\\evil.py": b"x"}),
    "a file that RECORD leaves out": lambda: wheel({}, infos=[zipfile.ZipInfo("torch/extra.py")]),
    "a wrong hash": lambda: wheel({"torch/x.py": b"x"}, record=b"torch/x.py,sha256=AAAA,1\n"),
    "no RECORD rows": lambda: wheel({}, record=b""),
    "nothing": lambda: b"",
    "a web page": lambda: b"<!doctype html><html>",
    "cut in the middle": lambda: wheel({"torch/x.so": bytes(range(256)) * 400})[:900],
}


def write(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_bytes(data)
    return path
