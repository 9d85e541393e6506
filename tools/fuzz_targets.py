"""The readers of strangers' bytes as fuzz targets: each a function of bytes, with well-formed inputs to start from.

A target may only return or raise a RekindleError. `fuzz_readers.py` drives them with nothing but Python,
`fuzz_atheris.py` with libFuzzer.
"""

from __future__ import annotations

import io
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]

Target = tuple[Callable[[bytes], object], list[bytes]]
CODE = bytes.fromhex("554889e5c5f458c262f17c4858c2e800000000f30fb8c1660f3840c10fa2c4e2f5b8d05dc3") * 4


def targets() -> dict[str, Target]:
    fatbin, bundle, elf, pe = _fatbin(), _bundle(), _elf(), _pe()
    return {
        "elf": (read_elf, [elf]),
        "pe": (read_pe, [pe]),
        "fatbin": (read_fatbin, [fatbin]),
        "offload": (read_offload, [bundle, _compressed(bundle, 3), _compressed(bundle, 2), _compressed(bundle, 1)]),
        "wheel": (read_wheel, [_wheel(elf)]),
        "record": (read_record, [b"a.py,sha256=x,1\na-1.dist-info/RECORD,,\0Name: a\nVersion: 1\0Tag: py3-none-any\n"]),
        "index": (read_index, [_PAGE, b'{"files": [{"filename": "a-1-py3-none-any.whl", "url": "x"}]}']),
        "lz4": (read_lz4, [b"\x4fabcd\x04\x00\xff\x10\x50hello"]),
        "x86": (read_x86, [CODE]),
        "arm64": (read_arm64, [bytes.fromhex("fd7bbfa9000820d4004cd93cc0035fd6")]),
        "ninja": (read_ninja, [_NINJA_LOG, _NINJA]),
        "cmake": (read_cmake, [b"// c\nUSE_CUDA:BOOL=ON\n\"a b\":STRING='x '\nCMAKE_BUILD_TYPE:STRING=Release\n"]),
        "library": (read_library, [elf, pe]),
    }


_PAGE = b'<a href="torch-2.6.0-cp311-cp311-win_amd64.whl#sha256=0" data-yanked="">x</a>'
_NINJA_LOG = b"# ninja log v5\n0\t12\t1700000000\ta.o\tdeadbeef\n3\t40\t0\tlib/b.so\t1\n"
_NINJA = b"rule cc\n  command = gcc $in -o $out\nbuild a.o b$ c.o | d.h: cc a.c $\n  || e\n  FLAGS = -O2 $x ${y}\n"


def read_elf(data: bytes) -> None:
    from rekindle.formats.elf import Elf
    from rekindle.formats.functions import find_functions
    from rekindle.formats.references import read_references

    one = Elf(data)
    _ = one.sections, one.segments, one.dynamic, one.needed, one.soname, one.rpath, one.version_needs
    find_functions(one)
    read_references(one)


def read_pe(data: bytes) -> None:
    from rekindle.formats.functions import find_functions
    from rekindle.formats.pe import Pe
    from rekindle.formats.references import read_pe_references

    one = Pe(data)
    _ = one.sections, one.needed, one.delayed, one.exports, one.cookie
    find_functions(one)
    read_pe_references(one)


def read_fatbin(data: bytes) -> None:
    from rekindle.formats.fatbin import read_containers
    from rekindle.inspect.gpu import owners_of

    for container in read_containers(data, 0, len(data)):
        owners_of(data, container)


def read_offload(data: bytes) -> None:
    from rekindle.formats.offload import read_bundles

    list(read_bundles(data, 0, len(data)))


def read_wheel(data: bytes) -> None:
    from rekindle.formats.wheel import WheelZip

    one = WheelZip(lambda: io.BytesIO(data), "x.whl")
    for name in one.members:
        one.inflate(name, lambda _: None)
    _ = one.record, one.headers("METADATA"), one.headers("WHEEL")


def read_record(data: bytes) -> None:
    """RECORD, METADATA and WHEEL of any content, in a sound archive."""
    import zipfile

    from rekindle.inspect.declared import read_declared
    from rekindle.inspect.reader import WheelSource
    from rekindle.inspect.survey import check_record

    parts = [*data.split(b"\0"), b"", b""]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in zip(("RECORD", "METADATA", "WHEEL"), parts, strict=False):
            archive.writestr(f"a-1.dist-info/{name}", content)
        archive.writestr("a.py", b"")
        archive.writestr("torch/version.py", parts[-1])
    whole = file.getvalue()
    source = WheelSource(lambda: io.BytesIO(whole), "a-1-py3-none-any.whl", len(whole))
    read_declared(source)
    check_record(source)


def read_index(data: bytes) -> None:
    from rekindle.formats.simple_index import choose_wheels, read_project_page, wheels_of

    choose_wheels(
        wheels_of(read_project_page(data, "https://i/simple/torch/"), "torch"), "", python="3.11", platform=None
    )


def read_lz4(data: bytes) -> None:
    from rekindle.formats.fatbin import decode_lz4

    assert len(decode_lz4(data, 1 << 16)) <= (1 << 16) + len(data)


def read_x86(data: bytes) -> None:
    from rekindle.formats import x86_scan

    _scan(x86_scan.scan, data)


def read_arm64(data: bytes) -> None:
    from rekindle.formats import arm64_scan

    _scan(arm64_scan.scan, data)


def _scan(scan: Callable[..., object], data: bytes) -> None:
    """The bytes as code of a few functions; where they begin comes from the bytes too."""
    import numpy as np

    if not data:
        return
    cuts = sorted({0, data[0] % len(data), data[-1] % len(data)})
    starts = np.array(cuts, dtype=np.int64) + 4096
    ends = np.array([*cuts[1:], len(data)], dtype=np.int64) + 4096
    scan(np.frombuffer(data, dtype=np.uint8), 4096, starts, ends, starts, starts)


def read_ninja(data: bytes) -> None:
    from rekindle.formats.ninja import latest, parse_build_ninja, parse_ninja_log

    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    latest(parse_ninja_log(lines))
    list(parse_build_ninja(lines))


def read_cmake(data: bytes) -> None:
    from rekindle.formats.cmake_cache import is_true, read_cmake_cache

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        for value in read_cmake_cache(Path(file.name)).values():
            is_true(value)


def read_library(data: bytes) -> None:
    from rekindle.inspect import libraries

    libraries.read_library(data, "fuzz.so", step=lambda done, total: None)


def _fatbin() -> bytes:
    from binaries import make_entry, make_fatbin

    made = make_fatbin([make_entry(2, 35), make_entry(1, 90, 0x8011)], [make_entry(2, 90, 0x100011, header=120)])
    return bytes(made)


def _bundle() -> bytes:
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1) + struct.pack("<QQQ", 128, 8, 31)
    return (table + b"hipv4-amdgcn-amd-amdhsa--gfx906").ljust(136, b"\0")


def _compressed(bundle: bytes, version: int) -> bytes:
    import zstandard

    packed = zlib.compress(bundle) if version == 1 else zstandard.compress(bundle)
    sizes = {
        1: struct.pack("<I", len(bundle)),
        2: struct.pack("<II", 24 + len(packed), len(bundle)),
        3: struct.pack("<QQ", 32 + len(packed), len(bundle)),
    }[version]
    return b"CCOB" + struct.pack("<HH", version, int(version > 1)) + sizes + b"\0" * 8 + packed


def _elf() -> bytes:
    from binaries import make_elf

    made = make_elf(
        {".nv_fatbin": _fatbin(), ".hip_fatbin": _bundle(), ".text": CODE},
        needed=["libc.so.6"], soname="a.so", rpath="$ORIGIN", versions={"libc.so.6": ["GLIBC_2.17"]},
    )  # fmt: skip
    return bytes(made)


def _pe() -> bytes:
    from binaries import make_pe

    return bytes(make_pe({".text": CODE, ".nv_fatb": _fatbin()}, imports=["KERNEL32.dll"]))


def _wheel(elf: bytes) -> bytes:
    from binaries import make_wheel

    return bytes(make_wheel({"a/b.so": elf, "a/c.py": b"x = 1\n"}))
