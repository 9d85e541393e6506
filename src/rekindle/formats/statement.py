"""An in-toto statement with an SLSA 1.0 predicate: what was made, from what, with which settings and tools.

The same for the same inputs: no times, no random numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any


def hide_places(value: Any, places: Mapping[str, str]) -> Any:
    """The same with ``<workspace>`` where it names that place: what is published need not tell where it was made."""
    text = json.dumps(value, ensure_ascii=False)
    for name, place in sorted(places.items(), key=lambda item: -len(item[1])):
        if len(place) > 3:
            written = json.dumps(place.rstrip("/\\"), ensure_ascii=False)[1:-1]
            text = re.sub(rf"{re.escape(written)}(?![\w.-])", f"<{name}>", text)
    return json.loads(text)


def fill_places(value: Any, places: Mapping[str, str]) -> Any:
    """The other way round, with the places of whoever repeats it."""
    text = json.dumps(value)
    for name, place in places.items():
        text = text.replace(f"<{name}>", json.dumps(place)[1:-1])
    return json.loads(text)


def write_statement(
    made: Sequence[tuple[str, str]],
    *,
    kind: str,
    asked: Mapping[str, Any],
    settings: Mapping[str, Any],
    materials: Sequence[Mapping[str, Any]],
    tools: Mapping[str, str],
) -> bytes:
    """``made``: (name, SHA-256) of each file; ``kind``: the build type, whose repeater knows what ``settings`` mean."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in made],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": kind,
                "externalParameters": dict(asked),
                "internalParameters": dict(settings),
                "resolvedDependencies": [dict(material) for material in materials],
            },
            "runDetails": {"builder": {"id": "rekindle", "version": dict(sorted(tools.items()))}},
        },
    }
    return (json.dumps(statement, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
