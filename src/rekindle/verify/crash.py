"""A crash in words: the signal, the instruction's bytes, the function around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rekindle.model.verify import Crash


def describe_crash(raw: dict[str, Any]) -> Crash:
    """What the trap in the target wrote down, completed with names read from the library's file."""
    library = raw.get("library")
    offset = raw.get("offset")
    return Crash(
        signal=str(raw.get("name", "unknown signal")),
        instruction=raw.get("code") or None,
        library=library,
        offset=offset,
    )


def sentence(crash: Crash) -> str:
    """The place, for one line of text; empty where nothing is known."""
    parts = []
    if crash.function:
        parts.append(f"in {crash.function}")
    if crash.library and crash.offset is not None:
        parts.append(f"at {Path(crash.library).name}+{crash.offset:#x}")
    if crash.instruction:
        name = f" ({crash.isa})" if crash.isa else ""
        parts.append(f"instruction {crash.instruction}{name}")
    return ", ".join(parts)
