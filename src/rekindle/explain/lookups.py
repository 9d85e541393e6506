"""Every named question and look-up that rules may ask for."""

from __future__ import annotations

from rekindle.explain import conditions, hosts, owners, setting, values

CONDITIONS = {**conditions.CONDITIONS, **owners.CONDITIONS, **setting.CONDITIONS}
FILLS = {**values.FILLS, **owners.FILLS, **hosts.FILLS}
