"""Reads the files explain is made of: rules, dialects, kinds, proofs. A wrong field is told with its file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

from rekindle.errors import BadInput
from rekindle.facts.load import parse_toml

Shape = TypeVar("Shape")


def read_file(path: Path, name: str, shape: type[Shape]) -> Shape:
    """The file in its shape; ``name`` is the one it has in the cache of parsed files."""
    try:
        return msgspec.convert(parse_toml(path.read_bytes(), name), shape)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadInput(
            f"{path.parent.name}/{path.name} cannot be used: {error}",
            remedy="take the change to it back, or install rekindle again",
        ) from error
