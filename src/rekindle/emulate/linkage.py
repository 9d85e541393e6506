"""What shared libraries want of each other: needed files, undefined symbols with their versions."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rekindle.formats.elf import Elf, open_elf
from rekindle.formats.view import Malformed

_UNDEFINED, _WEAK = 0, 2


@dataclass(frozen=True, kw_only=True)
class Linkage:
    """``wanted``: (symbol, library it is bound to or None, version or None), weak ones left out."""

    needed: tuple[str, ...]
    wanted: frozenset[tuple[str, str | None, str | None]]
    defined: frozenset[str]


def read_linkage(path: Path) -> Linkage | None:
    """The dynamic symbols of a library; None for what is no ELF file."""
    try:
        with open_elf(path) as elf:
            return _linkage(elf)
    except (Malformed, ValueError, OSError):
        return None


def _linkage(elf: Elf) -> Linkage:
    table, strings = elf.section(".dynsym"), elf.section(".dynstr")
    if table is None or strings is None:
        return Linkage(needed=elf.needed, wanted=frozenset(), defined=frozenset())
    versions = elf.section(".gnu.version")
    names = _version_names(elf)
    # The two tables are copied once: a torch library has some 100,000 dynamic symbols.
    rows = struct.iter_unpack("<IBBHQQ", elf.view.take(table.offset, table.size // 24 * 24))
    text = elf.view.take(strings.offset, strings.size)
    wanted: set[tuple[str, str | None, str | None]] = set()
    defined: set[str] = set()
    for index, (at, info, _, place, _, _) in enumerate(rows):
        if place == _UNDEFINED and info >> 4 == _WEAK:
            continue
        name = text[at : max(at, text.find(b"\0", at))].decode("utf-8", "backslashreplace")
        if place != _UNDEFINED:
            defined.add(name)
        elif name:
            number = elf.view.number("<H", versions.offset + 2 * index) & 0x7FFF if versions else 0
            wanted.add((name, *names.get(number, (None, None))))
    return Linkage(needed=elf.needed, wanted=frozenset(wanted), defined=frozenset(defined))


def _version_names(elf: Elf) -> dict[int, tuple[str, str]]:
    """Index in .gnu.version -> (library, version), from .gnu.version_r."""
    section, strings = elf.section(".gnu.version_r"), elf.section(".dynstr")
    found: dict[int, tuple[str, str]] = {}
    if section is None or strings is None:
        return found
    view, end = elf.view, strings.offset + strings.size
    at = section.offset
    for _ in range(section.info):
        _, count, file, aux, step = view.unpack("<HHIII", at)
        library = view.text(strings.offset + file, end)
        inner = at + aux
        for _ in range(count):
            _, _, other, name, onward = view.unpack("<IHHII", inner)
            found[other] = (library, view.text(strings.offset + name, end))
            inner += onward
        if step == 0:
            break
        at += step
    return found


def missing_libraries(libraries: Iterable[Path], folders: Iterable[Path]) -> dict[str, dict[str, str | None]]:
    """Libraries that nobody provides, each with the symbols (and versions) it would have to have.

    Symbols that are bound to no library and that nobody defines go to the first of them.
    """
    places = tuple(folders)
    read = {path.name: linkage for path in libraries if (linkage := read_linkage(path)) is not None}
    needed = {name for linkage in read.values() for name in linkage.needed}
    outside = {name: next((folder / name for folder in places if (folder / name).exists()), None) for name in needed}
    missing = sorted(name for name in needed if name not in read and outside[name] is None)
    symbols: dict[str, dict[str, str | None]] = {name: {} for name in missing}
    if not missing:
        return symbols
    defined: set[str] = set().union(*(linkage.defined for linkage in read.values()))
    for name in needed:
        found = outside[name]
        if name not in read and found is not None and (linkage := read_linkage(found)) is not None:
            defined |= linkage.defined
    for linkage in read.values():
        for symbol, library, version in linkage.wanted:
            if library in symbols:
                symbols[library][symbol] = version
            elif library is None and symbol not in defined and not symbol.startswith(("Py", "_Py")):
                symbols[missing[0]].setdefault(symbol, None)
    return symbols
