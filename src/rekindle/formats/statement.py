"""An in-toto statement with an SLSA 1.0 predicate: what was made, from what, with which settings and tools.

Written, it is the same for the same inputs: no times, no random numbers. Read, it may come plain, in a signed envelope
(DSSE) or in the form an index serves (PEP 740); whether a key that is believed signed it is for others to ask.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rekindle.errors import BadInput
from rekindle.formats.dsse import Envelope, read_envelope, read_provenance


class Statement(NamedTuple):
    """What a file says, and the ``envelope`` it came in; None where nobody signed it."""

    said: Mapping[str, Any]
    envelope: Envelope | None = None

    @property
    def subjects(self) -> dict[str, str]:
        """The SHA-256 of each file it speaks about; what is no such row is none."""
        rows = self.said.get("subject")
        named = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        return {str(row.get("name")): str(inner(row, "digest").get("sha256")) for row in named}

    @property
    def definition(self) -> Mapping[str, Any]:
        """How it was made: inputs, settings, materials."""
        return inner(self.said, "predicate", "buildDefinition")


def inner(said: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The table that lies behind these names; empty where a stranger's statement has something else there."""
    place: Any = said
    for name in names:
        place = place.get(name) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def read_statement(raw: bytes, origin: str) -> Statement:
    """Anything wrong with it is a :class:`BadInput` that names the place."""
    try:
        said = json.loads(raw)
        envelope = None
        if isinstance(said, Mapping) and ("payload" in said or "attestation_bundles" in said):
            envelope = (read_envelope if "payload" in said else read_provenance)(raw, origin)
            said = json.loads(envelope.payload)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{origin} holds no readable statement: {error}") from error
    if not isinstance(said, Mapping):
        raise BadInput(f"{origin} holds no readable statement")
    return Statement(said, envelope)


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
