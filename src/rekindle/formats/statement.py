"""An in-toto statement with an SLSA 1.0 predicate: what was made, from what, with which settings and tools.

The same for the same inputs: no times, no random numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


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
