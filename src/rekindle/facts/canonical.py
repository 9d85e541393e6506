"""The one way a facts file is written, so that a diff shows facts and nothing else.

``dump(tables)`` writes what :func:`tomllib.loads` reads back unchanged: scalars first, then a block per row. In a row
each field has one line in the order it was written; a table in a row stays on its line up to five entries and gets
lines of its own from six on. ``reformat(text)`` brings a whole file into that form, below its leading comment.
A test holds every shipped file to it, and ``rekindle facts format`` writes it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from rekindle.model.toml import toml_key, toml_value


def dump(tables: Mapping[str, Any]) -> str:
    """TOML text of a facts file."""
    lines: list[str] = []
    for name, value in tables.items():
        if not isinstance(value, (dict, list)):
            lines.append(f"{toml_key(name)} = {toml_value(value)}")
    for name, value in tables.items():
        if isinstance(value, dict):
            for row_name, row in value.items():
                path = f"{toml_key(name)}.{toml_key(row_name)}"
                lines += ["", f"[{path}]", *_row(row, path)]
        elif isinstance(value, list):
            for row in value:
                lines += ["", f"[[{toml_key(name)}]]", *_row(row, toml_key(name))]
    return "\n".join(lines) + "\n"


def body(text: str) -> str:
    """A file without its leading comment lines."""
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        lines.pop(0)
    return "".join(lines)


def reformat(text: str) -> str:
    """A file in canonical form; a comment below the first table is a ValueError, because it would be lost."""
    own = body(text)
    head = text[: len(text) - len(own)]
    rows = own.splitlines()
    first = len(head.splitlines()) + 1
    comments = [first + place for place, line in enumerate(rows) if line.lstrip().startswith("#")]
    if comments:
        raise ValueError(f"line {comments[0]} is a comment inside the tables: put it into the row's note")
    return head + dump(tomllib.loads(text))


def _row(row: Mapping[str, Any], path: str) -> list[str]:
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in row.items() if not _is_long(value)]
    for name, value in row.items():
        if _is_long(value):
            lines.append(f"[{path}.{toml_key(name)}]")
            lines += [f"{toml_key(inner)} = {toml_value(item)}" for inner, item in value.items()]
    return lines


def _is_long(value: Any) -> bool:
    """Tables of many entries get lines of their own; small ones stay inline."""
    return isinstance(value, dict) and len(value) > 5
