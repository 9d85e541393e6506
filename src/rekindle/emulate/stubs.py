"""Shared libraries that only pretend: every function is there and answers 999, "unknown error" in CUDA's words. A CUDA
build of torch can then be loaded on a machine without the 2.5 GB of CUDA libraries, and finds no GPU.

Written byte by byte for x86-64 and AArch64, so no compiler is needed: one read-only segment with symbols, hash table,
version definitions and a few bytes of code; one writable page with the dynamic section, which the loader changes.
"""

import contextlib
import itertools
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rekindle.emulate.qemu import X86, EmulatedMachine
from rekindle.formats.elf import DT, open_elf
from rekindle.formats.view import Malformed, round_up
from rekindle.model.toml import read_beside

_UNDEFINED, _WEAK = 0, 2
_HEADER_BYTES, _ALIGN = 64 + 4 * 56, 16


def write_stubs(package: Path, folder: Path, root: Path | None, emulated: EmulatedMachine) -> list[str]:
    """Write stand-ins for missing GPU libraries; their names. Other libraries that are missing stay missing."""
    libraries = [path for path in package.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    system = () if root else (Path("/usr/lib"), Path("/lib"))
    places = (*emulated.library_folders(root or Path("/")), *system)
    missing = {name: wants for name, wants in missing_libraries(libraries, places).items() if serves_gpu(name)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, symbols in missing.items():
        (folder / Path(name).name).write_bytes(stub_library(name, symbols, emulated))
    return list(missing)


def serves_gpu(name: str) -> bool:
    """Is this a library of CUDA, ROCm or another GPU's runtime?"""
    kinds = read_beside(__file__, "gpu_libraries.toml", dict[str, dict[str, str]])
    return any(re.match(kind["pattern"], name) for kind in kinds.values())


def stub_library(soname: str, symbols: Mapping[str, str | None], emulated: EmulatedMachine = X86) -> bytes:
    """An ELF shared library that defines ``symbols`` (name -> version), all as the same function."""
    code = bytes.fromhex(emulated.answer)
    names = sorted(symbols)
    versions = sorted({version for version in symbols.values() if version is not None})
    text, place_of = bytearray(1), {}
    for name in (soname, *names, *versions):
        place_of[name] = len(text)
        text += name.encode("utf-8") + b"\0"
    definitions = _version_definitions([soname, *versions], place_of)
    number = {version: place + 2 for place, version in enumerate(versions)}
    # 0 local, 1 unversioned, 2… the version definitions after the file's own
    versym = struct.pack("<H", 0) + b"".join(
        struct.pack("<H", number[version] if (version := symbols[name]) is not None else 1) for name in names
    )

    hashes, count = _hash_table(names), len(names) + 1
    sizes = (_HEADER_BYTES, 24 * count, len(hashes), len(versym), len(definitions), len(text))
    places = (0, *itertools.accumulate(round_up(size, _ALIGN) for size in sizes))
    _, symbol_at, hash_at, versym_at, verdef_at, string_at, code_at = places
    first = code_at + len(code)
    dynamic_at = round_up(first, emulated.page)

    # st_info 0x12: global function; section 1 stands for "defined": the loader only looks for zero.
    table = b"\0" * 24 + b"".join(
        struct.pack("<IBBHQQ", i, 0x12, 0, 1, code_at, len(code)) for i in map(place_of.__getitem__, names)
    )
    tags = [("SONAME", place_of[soname]), ("HASH", hash_at), ("STRTAB", string_at), ("SYMTAB", symbol_at)]
    tags += [("STRSZ", len(text)), ("SYMENT", 24)]
    if versions:
        tags += [("VERSYM", versym_at), ("VERDEF", verdef_at), ("VERDEFNUM", len(versions) + 1)]
    dynamic = b"".join(struct.pack("<QQ", DT[tag], value) for tag, value in tags) + b"\0" * 16

    image = bytearray(dynamic_at + len(dynamic))
    head = _elf_header(emulated, first, dynamic_at, len(dynamic))
    pieces = (head, table, hashes, versym, definitions, text, code, dynamic)
    for place, piece in zip((*places, dynamic_at), pieces, strict=True):
        image[place : place + len(piece)] = piece
    return bytes(image)


def _elf_header(emulated: EmulatedMachine, first: int, dynamic_at: int, dynamic: int) -> bytes:
    ident = b"\x7fELF" + bytes([2, 1, 1]) + b"\0" * 9
    # ET_DYN, program headers right behind, no sections
    head = ident + struct.pack("<HHIQQQIHHHHHH", 3, emulated.elf, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    rows = (
        (1, 5, 0, first, emulated.page),  # PT_LOAD r-x
        (1, 6, dynamic_at, dynamic, emulated.page),  # PT_LOAD rw-
        (2, 6, dynamic_at, dynamic, _ALIGN),  # PT_DYNAMIC
        (0x6474E551, 6, 0, 0, _ALIGN),  # PT_GNU_STACK: not executable
    )
    return head + b"".join(
        struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align) for kind, flags, at, size, align in rows
    )


def elf_hash(name: str) -> int:
    """The hash of the System V ABI, by which the loader finds a symbol."""
    value = 0
    for byte in name.encode("utf-8"):
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def _hash_table(names: list[str]) -> bytes:
    buckets = [0] * max(1, len(names))
    chain = [0] * (len(names) + 1)
    for index, name in enumerate(names, start=1):
        place = elf_hash(name) % len(buckets)
        chain[index], buckets[place] = buckets[place], index
    return struct.pack(f"<II{len(buckets)}I{len(chain)}I", len(buckets), len(chain), *buckets, *chain)


def _version_definitions(names: list[str], place_of: Mapping[str, int]) -> bytes:
    """.gnu.version_d: the file's own name first (flag BASE), then each version."""
    out = b""
    for index, name in enumerate(names, start=1):
        following = 28 if index < len(names) else 0
        out += struct.pack("<HHHHIII", 1, int(index == 1), index, 1, elf_hash(name), 20, following)
        out += struct.pack("<II", place_of[name], 0)
    return out


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """``undefined``: (symbol, library it is bound to or None, version or None), weak ones left out."""

    needed: tuple[str, ...]
    undefined: frozenset[tuple[str, str | None, str | None]]
    defined: frozenset[str]


def read_linkage(path: Path) -> Linkage | None:
    """The dynamic symbols of a library; None for what is no ELF file."""
    undefined: set[tuple[str, str | None, str | None]] = set()
    defined: set[str] = set()
    with contextlib.suppress(Malformed, ValueError, OSError), open_elf(path) as elf:
        table, strings, versions = (elf.section(name) for name in (".dynsym", ".dynstr", ".gnu.version"))
        if table is None or strings is None:
            return Linkage(needed=elf.needed, undefined=frozenset(), defined=frozenset())
        names = {
            number: (need.library, version)
            for need in elf.version_needs
            for number, version in zip(need.numbers, need.versions, strict=True)
        }
        # The two tables are copied once: a torch library has some 100,000 dynamic symbols.
        rows = struct.iter_unpack("<IBBHQQ", elf.view.take(table.offset, table.size // 24 * 24))
        text = elf.view.take(strings.offset, strings.size)
        for index, (at, info, _, place, _, _) in enumerate(rows):
            if place == _UNDEFINED and info >> 4 == _WEAK:
                continue
            name = text[at : max(at, text.find(b"\0", at))].decode("utf-8", "backslashreplace")
            if place != _UNDEFINED:
                defined.add(name)
            elif name:
                number = elf.view.number("<H", versions.offset + 2 * index) & 0x7FFF if versions else 0
                undefined.add((name, *names.get(number, (None, None))))
        return Linkage(needed=elf.needed, undefined=frozenset(undefined), defined=frozenset(defined))
    return None


def missing_libraries(libraries: Iterable[Path], folders: Iterable[Path]) -> dict[str, dict[str, str | None]]:
    """Libraries that nobody provides, each with the symbols (and versions) it would have to have. Symbols that are
    bound to no library and that nobody defines go to the first of them."""
    places = tuple(folders)
    read = {path.name: linkage for path in libraries if (linkage := read_linkage(path)) is not None}
    needed = {name for linkage in read.values() for name in linkage.needed} - {*read}
    outside = {name: next((folder / name for folder in places if (folder / name).exists()), None) for name in needed}
    missing = sorted(name for name, place in outside.items() if place is None)
    symbols: dict[str, dict[str, str | None]] = {name: {} for name in missing}
    if not missing:
        return symbols
    here = (linkage for place in outside.values() if place is not None and (linkage := read_linkage(place)) is not None)
    defined: set[str] = set().union(*(linkage.defined for linkage in (*read.values(), *here)))
    for linkage in read.values():
        for symbol, library, version in linkage.undefined:
            if library in symbols:
                symbols[library][symbol] = version
            elif library is None and symbol not in defined and not symbol.startswith(("Py", "_Py")):
                symbols[missing[0]].setdefault(symbol, None)
    return symbols
