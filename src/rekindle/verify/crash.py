"""A crash in words: the signal, the instruction and its set, the function around it."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.compat.operators import SILENT
from rekindle.formats.elf import PT_LOAD, Elf, open_elf
from rekindle.formats.view import Malformed
from rekindle.host.protocol import Host
from rekindle.model.verify import Crash

# A kernel's full name, with all its template arguments, can fill a screen; the report keeps it whole.
MOST_NAME = 140
_FUNCTION, _FILE, _INDIRECT = 2, 4, 10
_ROW = struct.Struct("<IBBHQQ")
_COPY = re.compile(r"\.(AVX2?|AVX512|SVE\d*|VSX|ZVECTOR)\.\w+$")


def remedy_for(crash: Crash) -> str | None:
    """What to do about an instruction the CPU refuses; None for other ends, which the check knows more about."""
    if crash.signal != "SIGILL":
        return None
    if crash.unit and (copy := _COPY.search(crash.unit)):
        return (
            f"torch's own copy for {copy[1]} ran on a CPU without it: unset ATEN_CPU_CAPABILITY if it is set; "
            "if not, build from source for this CPU: rekindle plan --build"
        )
    return "this code uses instructions the CPU lacks: rekindle inspect WHEEL --for this, rekindle plan --build"


def describe_crash(host: Host, raw: dict[str, Any], machine: str) -> Crash:
    """What the trap in the target wrote down, completed with names read from the library's file."""
    library, offset, code = raw.get("library"), raw.get("offset"), raw.get("code")
    symbol = find_symbol(Path(library), offset) if library and isinstance(offset, int) else None
    isa = None
    if raw.get("name") == "SIGILL" and code:
        isa = _refused_set(bytes.fromhex(code), machine)
    return Crash(
        signal=str(raw.get("name", "unknown signal")),
        instruction=code or None,
        isa=isa,
        library=library,
        offset=offset,
        function=demangle(host, symbol.name) if symbol else None,
        unit=symbol.unit if symbol else None,
    )


def _refused_set(code: bytes, machine: str) -> str | None:
    """The instruction set of what the CPU refused, by the tables that ``inspect`` reads libraries with."""
    if machine in ("x86_64", "AMD64"):
        from rekindle.formats.x86 import instruction_set

        name = instruction_set(code)
        return None if name in SILENT else name
    if machine not in ("aarch64", "arm64") or len(code) < 4:
        return None
    import numpy as np

    from rekindle.formats.arm64_scan import CLASSES, classify

    name = CLASSES[int(classify(np.frombuffer(code[:4], "<u4"))[0])]
    return None if name in ("base", "exclusive") else name


def demangle(host: Host, name: str) -> str:
    """A C++ name as people write it, where the machine has the tool for it."""
    if not name.startswith("_Z"):
        return name
    for tool in ("c++filt", "llvm-cxxfilt", "x86_64-linux-gnu-c++filt"):
        if host.which(tool):
            done = host.run([tool, name])
            if done.ok and done.out.strip():
                return done.out.strip()
    return name


def sentence(crash: Crash) -> str:
    """The place, for one line of text; empty where nothing is known."""
    parts = []
    if crash.function:
        name = crash.function
        parts.append(f"in {name if len(name) <= MOST_NAME else name[: MOST_NAME - 1] + '…'}")
    if crash.unit:
        parts.append(f"compiled from {crash.unit}")
    if crash.library and crash.offset is not None:
        parts.append(f"at {Path(crash.library).name}+{crash.offset:#x}")
    if crash.signal == "SIGILL" and crash.instruction:
        kind = f"{crash.isa} instruction" if crash.isa else "instruction"
        parts.append(f"{kind} {crash.instruction[:16]}…")
    return ", ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """``unit`` is the source file a local function was compiled from, as the linker wrote it down."""

    name: str
    start: int
    unit: str | None = None


def find_symbol(path: Path, offset: int) -> Symbol | None:
    """The function that holds the byte at ``offset`` of the file; None where no table tells."""
    try:
        with open_elf(path) as elf:
            address = _address(elf, offset)
            if address is None:
                return None
            return _look(elf, ".symtab", ".strtab", address) or _look(elf, ".dynsym", ".dynstr", address)
    except (Malformed, OSError, ValueError):
        return None


def _address(elf: Elf, offset: int) -> int | None:
    for segment in elf.segments:
        if segment.kind == PT_LOAD and segment.offset <= offset < segment.offset + segment.file_size:
            return segment.address + offset - segment.offset
    return None


def _look(elf: Elf, table: str, strings: str, address: int) -> Symbol | None:
    rows, names = elf.section(table), elf.section(strings)
    if rows is None or names is None:
        return None
    data = elf.view.take(rows.offset, rows.size // _ROW.size * _ROW.size)
    found: tuple[int, int, int] | None = None
    unit: int | None = None
    found_unit: int | None = None
    for name, info, _, section, start, size in _ROW.iter_unpack(data):
        kind = info & 15
        if kind == _FILE:
            unit = name
            continue
        if kind not in (_FUNCTION, _INDIRECT) or not section or not start <= address < start + max(size, 1):
            continue
        # The innermost wins where symbols overlap, and a global name beats a local alias of the same place.
        if found is None or start > found[1] or (start == found[1] and info >> 4):
            found, found_unit = (name, start, info >> 4), unit if not info >> 4 else None
    if found is None:
        return None
    end = names.offset + names.size
    source = elf.view.text(names.offset + found_unit, end) if found_unit else None
    return Symbol(name=elf.view.text(names.offset + found[0], end), start=found[1], unit=source or None)
