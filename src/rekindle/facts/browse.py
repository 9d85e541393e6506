"""The tables as people look at them: rows by name, where they come from, and the one form a facts file has."""

import collections
import difflib
import itertools
import tomllib
from collections.abc import Mapping
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.facts import FILES, Facts, load_facts
from rekindle.model.document import json_form
from rekindle.model.facts import ChipRow, Probe, Row, SourcesView, SourceUse, TableView
from rekindle.model.toml import toml_key, toml_value

# How a row of a listed table is called, where it has no key of its own.
_NAMES = ("name", "id", "since", "gfx", "torch", "first", "title", "microarchitecture")


def rows_of(name: str, facts: Facts) -> dict[str, Row]:
    """Every row of a file, by a name that is unique in it."""
    content = getattr(facts, name)
    rows: dict[str, Row] = {}
    for field in content.__struct_fields__:
        value = getattr(content, field)
        if isinstance(value, dict):
            rows |= value
        elif isinstance(value, tuple):
            for row in value:
                label = _label(field, row)
                numbered = (f"{label} ({number})" for number in itertools.count(2))
                rows[next(name for name in itertools.chain([label], numbered) if name not in rows)] = row
    return rows


def _label(field: str, row: Row) -> str:
    if field == "flavour":
        return f"{getattr(row, 'torch')}+{getattr(row, 'name')}"  # noqa: B009 (rows differ by table)
    if isinstance(row, Probe):
        return f"{row.torch} {row.sm} CUDA {row.cuda} {row.level}"
    for attribute in _NAMES:
        if (value := getattr(row, attribute, None)) is not None:
            return f"{field} {value}" if field not in ("hazard", "distro") else str(value)
    return field


def facts_show(table: str | None = None, row: str | None = None) -> TableView:
    """The tables, a table, or the rows of it whose name contains ``row``.

    >>> facts_show("cuda").table
    'cuda'
    >>> "sm_120" in facts_show("cuda", "12.8").rows["12.8"]["sass"]
    True
    """
    facts = load_facts()
    if table is None:
        overview: dict[str, dict[str, object]] = {}
        for name in FILES:
            entries = rows_of(name, facts).values()
            how: collections.Counter[str] = collections.Counter(entry.how for entry in entries)
            overview[name] = {"rows": len(entries), **how, "newest": max((entry.date for entry in entries), default="")}
        return TableView(table="tables", rows=overview)
    if table not in FILES:
        near = difflib.get_close_matches(table, FILES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the tables are {', '.join(FILES)}"
        raise BadInput(f"there is no table {table!r}", remedy=hint)
    rows = rows_of(table, facts)
    if row is not None:
        needle = row.lower()
        chips = {name: value for name, value in rows.items() if isinstance(value, ChipRow)}
        rows = {name: value for name, value in rows.items() if needle in name.lower()}
        # A product is inside its chip's row.
        rows = rows or {name: chip for name, chip in chips.items() if any(needle in p.lower() for p in chip.products)}
        if not rows:
            raise BadInput(f"table {table} has no row for {row!r}", remedy=f"rekindle facts show {table} lists them")
    raw: dict[str, dict[str, object]] = msgspec.to_builtins(rows, enc_hook=json_form)
    said = {name: {n: v for n, v in fields.items() if v not in (None, [], {}, "")} for name, fields in raw.items()}
    return TableView(table=table, rows=said)


def facts_sources() -> SourcesView:
    """Where the facts come from, most used first.

    >>> all(each.rows > 0 for each in facts_sources().sources)
    True
    """
    facts = load_facts()
    uses: dict[str, list[str]] = {}
    how: collections.Counter[str] = collections.Counter()
    dates: list[str] = []
    for name in FILES:
        for row in rows_of(name, facts).values():
            how[row.how] += 1
            dates.append(row.date)
            for source in row.source:
                uses.setdefault(source, []).append(name)
    ranked = sorted(uses.items(), key=lambda item: (-len(item[1]), item[0]))
    sources = tuple(SourceUse(source=s, rows=len(t), tables=tuple(dict.fromkeys(t))) for s, t in ranked)
    return SourcesView(sources=sources, how=dict(how.most_common()), oldest=min(dates), newest=max(dates))


def dump(tables: Mapping[str, Any]) -> str:
    """The one form of a facts file: scalars first, then one block per row."""
    scalars = {name: value for name, value in tables.items() if not isinstance(value, dict | list)}
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in scalars.items()]
    for name, value in tables.items():
        if isinstance(value, dict):
            for row_name, row in value.items():
                path = f"{toml_key(name)}.{toml_key(row_name)}"
                lines += ["", f"[{path}]", *_row_lines(row, path)]
        elif isinstance(value, list):
            for row in value:
                lines += ["", f"[[{toml_key(name)}]]", *_row_lines(row, toml_key(name))]
    return "\n".join(lines) + "\n"


def without_head(text: str) -> str:
    lines = text.splitlines(keepends=True)
    while lines and lines[0].startswith("#"):
        lines.pop(0)
    return "".join(lines)


def reformat(text: str) -> str:
    """A file in canonical form; a comment below the first table is a ValueError, because it would be lost."""
    content = without_head(text)
    head = text[: len(text) - len(content)]
    rows = content.splitlines()
    first = len(head.splitlines()) + 1
    if comments := [first + place for place, line in enumerate(rows) if line.lstrip().startswith("#")]:
        raise ValueError(f"line {comments[0]} is a comment inside the tables: put it into the row's note")
    tables = tomllib.loads(text)
    for name, table in tables.items():
        rows_in = table.values() if isinstance(table, dict) else table if isinstance(table, list) else ()
        if not all(isinstance(row, dict) for row in rows_in):
            raise ValueError(f"{name} is no table of rows")
    return head + dump(tables)


def _row_lines(row: Mapping[str, Any], path: str) -> list[str]:
    """Tables of many entries get lines of their own; small ones stay inline."""
    large = {name: value for name, value in row.items() if isinstance(value, dict) and len(value) > 5}
    lines = [f"{toml_key(name)} = {toml_value(value)}" for name, value in row.items() if name not in large]
    for name, value in large.items():
        lines.append(f"[{path}.{toml_key(name)}]")
        lines += [f"{toml_key(inner)} = {toml_value(item)}" for inner, item in value.items()]
    return lines
