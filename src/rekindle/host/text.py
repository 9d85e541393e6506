"""Reading what files and tools say, whatever bytes they say it in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


def joined(system: str, *parts: str) -> str:
    """A path of that system, which need not be ours: ``C:\\CUDA\\bin``, ``/usr/local/cuda/bin``."""
    return ("\\" if system == "windows" else "/").join(parts)


def text_of(raw: bytes | None) -> str:
    return raw.decode("utf-8", "replace") if raw else ""


def lines_of(raw: bytes | None) -> list[str]:
    return text_of(raw).splitlines()


def key_values(text: str, separator: str = "=") -> dict[str, str]:
    """``KEY=value`` lines, quotes taken off; the first of several wins."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.partition(separator)
        if mark and key.strip() and not key.lstrip().startswith("#"):
            found.setdefault(key.strip(), value.strip().strip("\"'"))
    return found


def version_in(text: str, *, after: str = "") -> str | None:
    """The first dotted number, after ``after`` (a regular expression) where given."""
    match = re.search(rf"{after}\D{{0,40}}?({_VERSION.pattern})", text) if after else _VERSION.search(text)
    if match is None:
        return None
    return match[match.lastindex or 0]


def version_key(version: str | None) -> tuple[int, ...]:
    """Numbers for comparing: ``11.4.4`` before ``11.10``; what is no number counts as nothing."""
    return tuple(int(part) for part in re.findall(r"\d+", version or "")[:4])


def read_answer(raw: Mapping[str, Any] | None, kind: type[T]) -> T:
    """A question script's answer with types; nonsense becomes an answer whose ``error`` says so."""
    try:
        return msgspec.convert(dict(raw or {}), kind)
    except msgspec.ValidationError as error:
        return kind(error=f"its answer makes no sense ({error})")
