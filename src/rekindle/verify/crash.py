"""A crash in words: the signal, the instruction and its set, the function around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rekindle.host.protocol import Host
from rekindle.model.verify import Crash
from rekindle.verify.instruction import instruction_set
from rekindle.verify.symbols import find_symbol


def describe_crash(host: Host, raw: dict[str, Any], machine: str) -> Crash:
    """What the trap in the target wrote down, completed with names read from the library's file."""
    library, offset, code = raw.get("library"), raw.get("offset"), raw.get("code")
    symbol = find_symbol(Path(library), offset) if library and isinstance(offset, int) else None
    isa = None
    if raw.get("name") == "SIGILL" and code and machine in ("x86_64", "AMD64"):
        isa = instruction_set(bytes.fromhex(code))
    return Crash(
        signal=str(raw.get("name", "unknown signal")),
        instruction=code or None,
        isa=isa,
        library=library,
        offset=offset,
        function=demangle(host, symbol.name) if symbol else None,
        unit=symbol.unit if symbol else None,
    )


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
        parts.append(f"in {crash.function}")
    if crash.unit:
        parts.append(f"compiled from {crash.unit}")
    if crash.library and crash.offset is not None:
        parts.append(f"at {Path(crash.library).name}+{crash.offset:#x}")
    if crash.signal == "SIGILL" and crash.instruction:
        kind = f"{crash.isa} instruction" if crash.isa else "instruction"
        parts.append(f"{kind} {crash.instruction[:16]}…")
    return ", ".join(parts)
