"""The tables as people look at them: rows by name, and where they come from."""

from __future__ import annotations

import collections
import difflib
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.facts import FILES, Facts
from rekindle.model.document import _to_json
from rekindle.model.facts import Probe, Row, SourcesView, SourceUse, TableView

# How a row of a listed table is called, where it has no key of its own.
_NAMES = ("name", "id", "since", "gfx", "torch", "first", "title", "microarchitecture")


def rows_of(name: str, facts: Facts) -> dict[str, Row]:
    """Every row of a file, by a name that is unique in it."""
    content = getattr(facts, name)
    found: dict[str, Row] = {}
    for field in content.__struct_fields__:
        value = getattr(content, field)
        if isinstance(value, dict):
            found |= {key: row for key, row in value.items()}
        elif isinstance(value, tuple):
            for row in value:
                found[_unique(_label(field, row), found)] = row
    return found


def _label(field: str, row: Row) -> str:
    if field == "flavour":
        return f"{getattr(row, 'torch')}+{getattr(row, 'name')}"  # noqa: B009 (rows differ by table)
    if isinstance(row, Probe):
        return f"{row.torch} {row.sm} CUDA {row.cuda} {row.level}"
    for attribute in _NAMES:
        value = getattr(row, attribute, None)
        if value is not None:
            return f"{field} {value}" if field not in ("hazard", "distro") else str(value)
    return field


def _unique(label: str, found: dict[str, Row]) -> str:
    if label not in found:
        return label
    number = 2
    while f"{label} ({number})" in found:
        number += 1
    return f"{label} ({number})"


def show(facts: Facts, table: str | None = None, row: str | None = None) -> TableView:
    """The tables, a table, or the rows of it whose name contains ``row``."""
    if table is None:
        overview = {name: _overview(rows_of(name, facts)) for name in FILES}
        return TableView(table="tables", rows=overview)
    if table not in FILES:
        near = difflib.get_close_matches(table, FILES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the tables are {', '.join(FILES)}"
        raise BadInput(f"there is no table {table!r}", remedy=hint)
    rows = rows_of(table, facts)
    if row is not None:
        wanted = row.lower()
        rows = {name: value for name, value in rows.items() if wanted in name.lower()} or _by_content(rows, wanted)
        if not rows:
            raise BadInput(f"table {table} has no row for {row!r}", remedy=f"rekindle facts show {table} lists them")
    return TableView(table=table, rows={name: _plain(value) for name, value in rows.items()})


def _by_content(rows: dict[str, Row], wanted: str) -> dict[str, Row]:
    """A product is inside its chip's row."""
    found = {}
    for name, row in rows.items():
        products = getattr(row, "products", None)
        if isinstance(products, dict) and any(wanted in product.lower() for product in products):
            found[name] = row
    return found


def _overview(rows: dict[str, Row]) -> dict[str, object]:
    how: collections.Counter[str] = collections.Counter(row.how for row in rows.values())
    return {"rows": len(rows), **how, "newest": max((row.date for row in rows.values()), default="")}


def _plain(row: Row) -> dict[str, Any]:
    raw = msgspec.to_builtins(row, enc_hook=_to_json)
    assert isinstance(raw, dict)
    return {name: value for name, value in raw.items() if value not in (None, [], {}, "")}


def sources(facts: Facts) -> SourcesView:
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
    return SourcesView(
        sources=tuple(SourceUse(source=s, rows=len(t), tables=tuple(dict.fromkeys(t))) for s, t in ranked),
        how=dict(how.most_common()),
        oldest=min(dates),
        newest=max(dates),
    )
