"""Cause and fix with the captured values filled in.

``{arch}`` is a value, ``{arch|this one}`` a value that may be unknown, ``{flag,name|text}`` the first that is known,
``{arch_in_brackets|}`` the value as " (value)". A sentence whose value is unknown and has no default is left out:
better silent than "CUDA None".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FIELD = re.compile(r"\{([\w,]+)(?:\|([^{}]*))?\}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z({'\"/-])")
_BRACKETS = "_in_brackets"


def render(template: str, values: Mapping[str, str]) -> str:
    parts = (_sentence(sentence, values) for sentence in _SENTENCE.split(template))
    return " ".join(" ".join(part for part in parts if part).split())


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


def _sentence(sentence: str, values: Mapping[str, str]) -> str:
    for match in _FIELD.finditer(sentence):
        if match[2] is None and _value(match[1], values) is None:
            return ""
    return _FIELD.sub(lambda match: _value(match[1], values) or match[2] or "", sentence)
