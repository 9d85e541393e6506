"""Cause and fix with the captured values filled in: ``{arch}``, or ``{arch|this one}`` where it may be unknown.

A sentence whose value is unknown and has no default is left out: better silent than "CUDA None".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_FIELD = re.compile(r"\{(\w+)(?:\|([^{}]*))?\}")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z({'\"/0-9-])")


def render(template: str, values: Mapping[str, str]) -> str:
    return " ".join(part for part in map(lambda s: _sentence(s, values), _SENTENCE.split(template)) if part)


def render_all(templates: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(text for text in (render(template, values) for template in templates) if text)


def fields(template: str) -> set[str]:
    return {match[1] for match in _FIELD.finditer(template)}


def _sentence(sentence: str, values: Mapping[str, str]) -> str:
    for match in _FIELD.finditer(sentence):
        if match[1] not in values and match[2] is None:
            return ""
    return _FIELD.sub(lambda match: values.get(match[1]) or match[2] or "", sentence)
