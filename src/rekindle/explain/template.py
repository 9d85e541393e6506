"""Cause and fix with the captured values filled in.

``{arch}`` is a value, ``{arch|this one}`` a value that may be unknown, ``{flag,name|text}`` the first that is known,
``{arch_in_brackets|}`` the value as " (value)". A sentence whose value is unknown and has no default is left out:
better silent than "CUDA None". A field that stands between sentences is one itself, and is left out alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FIELD = re.compile(r"\{([\w,]+)(?:\|([^{}]*))?\}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z({'\"/\0-])")
_BRACKETS = "_in_brackets"
_MISSING = "\0"


def render_whole(template: str, values: Mapping[str, str]) -> str:
    """As :func:`render`, but never nothing: where no sentence would be left, what is unknown is called "it"."""
    text = render(template, values) or render(template, values, unknown="it")
    return text[:1].upper() + text[1:] if text.startswith("it ") else text


def render(template: str, values: Mapping[str, str], *, unknown: str = _MISSING) -> str:
    filled, end, is_alone = "", 0, True
    for field in _FIELD.finditer(template):
        between = template[end : field.start()].strip()
        is_alone = _begins_after(between, is_alone) and _ends_before(template[field.end() :])
        end, text = field.end(), template[end : field.start()]
        missing = "" if is_alone or field[2] == "" else unknown
        filled += text + (_value(field[1], values) or field[2] or missing)
    filled += template[end:]
    return " ".join(" ".join(part for part in _SENTENCE.split(filled) if _MISSING not in part).split())


def _begins_after(between: str, was_alone: bool) -> bool:
    """Does a sentence begin behind this text (or, where there is none, behind a field that was a whole one)?"""
    return between.endswith((".", "!", "?")) if between else was_alone


def _ends_before(rest: str) -> bool:
    """A field that is a sentence of its own is followed by nothing, or by the beginning of another."""
    return not rest.strip() or bool(re.match(r"\s+[A-Z({'\"/-]", rest))


def render_all(templates: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(text for text in (render(template, values) for template in templates) if text)


def fields(template: str) -> set[str]:
    names = {name for match in _FIELD.finditer(template) for name in match[1].split(",")}
    return {name.removesuffix(_BRACKETS) for name in names}


def _value(names: str, values: Mapping[str, str]) -> str | None:
    for name in names.split(","):
        if value := values.get(name):
            return value
        if value := values.get(name.removesuffix(_BRACKETS)):
            return f" ({value})"
    return None
