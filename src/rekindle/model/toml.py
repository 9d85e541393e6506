"""TOML as we write it: keys bare where they can be, texts as JSON strings (whose escapes TOML shares), one line each.

Tables and layout are the caller's: facts files have one canonical form, captures are written for reading.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    """A key, quoted only where it must be."""
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(text: str) -> str:
    """A basic string. JSON leaves DEL as it is, which TOML forbids."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any, text: Callable[[str], str] = toml_text) -> str:
    """A value on one line; ``text`` writes its strings. None has no TOML form: leave such keys out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(str(name))} = {toml_value(item, text)}" for name, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml_value(item, text) for item in value)}]"
    raise TypeError(f"no TOML form for {type(value).__name__}")
