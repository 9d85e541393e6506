"""A hazard made by hand, of which a test says only what it is about."""

from __future__ import annotations

from typing import Any

from rekindle.model.facts import Hazard


def hazard(**values: Any) -> Hazard:
    base: dict[str, Any] = {
        "id": "x", "concerns": "both", "effect": "breaks", "text": "It breaks.", "remedy": "Do not.",
        "source": ("here",), "date": "2026-01-01", "how": "measured",
    }  # fmt: skip
    return Hazard(**{**base, **values})
