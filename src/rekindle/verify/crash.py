"""A crash in words: the signal, the instruction and its set, the function around it."""

import contextlib
import re
from pathlib import Path
from typing import Any

from rekindle.compat.processor import SILENT
from rekindle.errors import has_package
from rekindle.formats.elf import open_elf
from rekindle.formats.view import Malformed
from rekindle.host.protocol import Host
from rekindle.model.verify import Crash

# A kernel's full name, with all its template arguments, can fill a screen; the report keeps it whole.
MOST_NAME = 140
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
    name = unit = isa = None
    if has_package("numpy"):
        if library and isinstance(offset, int):
            name, unit = find_symbol(Path(library), offset) or (None, None)
        if raw.get("name") == "SIGILL" and code:
            isa = _refused_set(bytes.fromhex(code), machine)
    return Crash(
        signal=str(raw.get("name", "unknown signal")),
        instruction=code or None,
        isa=isa,
        library=library,
        offset=offset,
        function=demangle(host, name) if name else None,
        unit=unit,
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


def crash_place(crash: Crash) -> str:
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


def find_symbol(path: Path, offset: int) -> tuple[str, str | None] | None:
    """The function that holds the byte at ``offset`` of the file, and the source file it was compiled from if it is a
    local one, as the linker wrote it down; None where no table tells."""
    from rekindle.formats.functions import find_functions

    with contextlib.suppress(Malformed, OSError, ValueError), open_elf(path) as elf:
        if (address := elf.address_of(offset)) is not None:
            functions = find_functions(elf)
            number = functions.at(address)
            if number is not None and functions.named(number):
                return functions.name(number), functions.file(number) or None
    return None
