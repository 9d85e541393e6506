"""Sizes as people write them: ``16``, ``16G``, ``1500m``, ``2.5 GiB``. Always powers of 1024; a bare number is GiB."""

from __future__ import annotations

import re

from rekindle.errors import BadInput

GIB = 1 << 30
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": GIB, "t": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes. ``500b`` is the only way to write bytes themselves."""
    trimmed = text.strip()
    match = _SIZE.fullmatch(trimmed)
    if match is None:
        raise BadInput(f"{text!r} is no size", remedy="write for example 16G (or just 16) or 1500M")
    unit = (match[2] or "").lower()
    factor = _BYTES.get(unit, 1 if trimmed[-1] in "bB" else GIB)
    return int(float(match[1]) * factor)


def gib(count: float | None) -> float | None:
    """Bytes as GiB with one decimal."""
    return None if count is None else round(count / GIB, 1)
