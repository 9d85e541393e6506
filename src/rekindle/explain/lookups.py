"""Every named question and look-up that rules may ask for."""

from __future__ import annotations

from rekindle.explain import conditions, owners, values

CONDITIONS = {**conditions.CONDITIONS, **owners.CONDITIONS}
FILLS = {**values.FILLS, **owners.FILLS}
