"""What a document without a field means: files of others, or of an older version, are read with these values."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

import rekindle.model

KNOWN = Path(__file__).with_name("defaults.json")


def values() -> Iterator[tuple[str, type]]:
    for module in pkgutil.iter_modules(rekindle.model.__path__):
        for name, kind in vars(importlib.import_module(f"rekindle.model.{module.name}")).items():
            if inspect.isclass(kind) and kind.__module__ == f"rekindle.model.{module.name}":
                yield name, kind


def defaults(kind: type) -> dict[str, Any]:
    if dataclasses.is_dataclass(kind):
        fields = {field.name: field.default for field in dataclasses.fields(kind)}
    elif issubclass(kind, msgspec.Struct):
        fields = {field.name: field.default for field in msgspec.structs.fields(kind)}
    else:
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, bool | int | float | str)}


def test_numbers_and_switches_that_are_left_out_keep_their_meaning() -> None:
    """After a wanted change: write the new value into defaults.json, which is free to lack a class or a field."""
    found = {name: defaults(kind) for name, kind in values()}
    known = json.loads(KNOWN.read_text("utf-8"))
    changed = {
        f"{name}.{field}": (value, found[name][field])
        for name, fields in known.items()
        for field, value in fields.items()
        if field in found.get(name, {}) and found[name][field] != value
    }
    assert changed == {}
    assert len(found.keys() & known.keys()) > 100
