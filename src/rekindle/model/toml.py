"""TOML as we write it: keys bare where they can be, texts as JSON strings (whose escapes TOML shares), one line each.
Facts files have one canonical form (:mod:`rekindle.facts.browse`); captures of machines are written for reading
(:func:`render_table`): long texts as they are, in literal blocks. :func:`read_beside` reads the table of a module."""

import functools
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_BARE = re.compile(r"[A-Za-z0-9_-]+")
# What a literal string may hold: everything but control characters (tab and newline are allowed).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WIDE = 90


def read_beside(module: str, name: str, kind: type[T]) -> T:
    """The table ``name`` beside a ``module`` (its ``__file__``) as a ``kind``; read once, so nobody may change it."""
    return _read_once(module, name, kind)  # type: ignore[arg-type, no-any-return]


@functools.cache
def _read_once(module: str, name: str, kind: Any) -> Any:
    import tomllib

    return msgspec.convert(tomllib.loads(Path(module).with_name(name).read_text(encoding="utf-8")), kind)


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


def _on_one_line(text: str) -> str:
    """Literal where it reads better: Windows paths, quoted words."""
    plain = "'" not in text and "\n" not in text and not _CONTROL.search(text)
    return f"'{text}'" if plain and ("\\" in text or '"' in text) else toml_text(text)


def render_value(value: Any) -> str:
    """A value; what is None inside it is left out. Several lines stand in a literal block where it can hold them."""
    if isinstance(value, str):
        is_block = "\n" in value and not (_CONTROL.search(value) or "'''" in value or value.endswith("'"))
        return f"'''\n{value}'''" if is_block else _on_one_line(value)
    whole = _without_none(value)
    if isinstance(whole, list):
        items = [toml_value(item, _on_one_line) for item in whole]
        if sum(map(len, items)) > _WIDE:
            return "[\n" + "".join(f"  {item},\n" for item in items) + "]"
    return toml_value(whole, _on_one_line)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(item) for item in value if item is not None]
    return value


def render_table(values: Mapping[str, Any]) -> str:
    """``key = value`` lines; what is None is left out."""
    return "".join(f"{toml_key(key)} = {render_value(value)}\n" for key, value in values.items() if value is not None)
