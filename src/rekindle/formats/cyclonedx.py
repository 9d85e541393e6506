"""A CycloneDX 1.5 bill of materials: the same bytes for the same content, no times, no random numbers.

It lies inside a wheel where PEP 770 wants it (``.dist-info/sboms``).
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

_SPACE = uuid.UUID("6f2a3c1e-2f0b-5c8e-9d35-6c1f0a5e7b11")


def render_bill(product: Mapping[str, Any], components: Sequence[Mapping[str, Any]], *, tool_version: str) -> bytes:
    """``product`` is what the bill is about, ``components`` what is inside it or made it."""
    tool = {"type": "application", "name": "rekindle", "version": tool_version}
    body = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": dict(product), "tools": {"components": [tool]}},
        "components": [dict(each) for each in components],
    }
    serial = uuid.uuid5(_SPACE, json.dumps(body, sort_keys=True))
    whole = {**body, "serialNumber": f"urn:uuid:{serial}"}
    return (json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
