"""Cause and fix with the captured values filled in.

``{arch}`` is a value, ``{arch|this one}`` a value that may be unknown, ``{flag,name|text}`` the first that is known,
``{arch_in_brackets|}`` the value as " (value)". A sentence whose value is unknown and has no default is left out:
better silent than "CUDA None".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FIELD = re.compile(r"\{([\w,]+)(?:\|([^{}]*))?\}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z({'\"/\0-])|(?<=\0)\s+")
_BRACKETS = "_in_brackets"
_MISSING = "\0"


def render(template: str, values: Mapping[str, str]) -> str:
    filled = _FIELD.sub(
        lambda match: _value(match[1], values) or match[2] or ("" if match[2] == "" else _MISSING), template
    )
    return " ".join(" ".join(part for part in _SENTENCE.split(filled) if _MISSING not in part).split())


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
