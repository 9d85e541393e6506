"""Why pip failed, from all that it printed."""

from __future__ import annotations


def telling_lines(text: str) -> list[str]:
    """The lines with its errors, or all that say anything where none is marked so; empty where it said nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line.removeprefix("ERROR: ") for line in lines if "ERROR" in line] or lines
