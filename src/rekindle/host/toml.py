"""Writes plain values as TOML a person can read: long texts as they are, in literal blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
# What a literal string may hold: everything but control characters (tab and newline are allowed).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def render_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _inline(key)


def render_string(text: str) -> str:
    if _CONTROL.search(text) or "'''" in text or "\r" in text or text.endswith("'"):
        # JSON's escapes are TOML's, but for DEL, which JSON leaves as it is.
        return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
    if "\n" in text:
        return f"'''\n{text}'''"
    # Windows paths read better without doubled backslashes.
    return f"'{text}'" if ("\\" in text or '"' in text) and "'" not in text else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def render_value(value: Any) -> str:
    """A value on one line (texts apart); None cannot be written, so leave such keys out."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return render_string(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{render_key(str(k))} = {_inline(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, (list, tuple)):
        items = [_inline(item) for item in value if item is not None]
        if sum(map(len, items)) > 90:
            return "[\n" + "".join(f"  {item},\n" for item in items) + "]"
        return f"[{', '.join(items)}]"
    raise TypeError(f"no TOML form for {type(value).__name__}")


def _inline(value: Any) -> str:
    """Inside arrays and inline tables a text stays on its line."""
    return _quoted(value) if isinstance(value, str) and "\n" in value else render_value(value)


def render_table(values: Mapping[str, Any]) -> str:
    return "".join(f"{render_key(key)} = {render_value(value)}\n" for key, value in values.items() if value is not None)
