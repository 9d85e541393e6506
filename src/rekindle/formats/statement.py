"""An in-toto statement with an SLSA 1.0 predicate: what was made, from what, with which settings and tools; and DSSE
envelopes: a payload, its type, and signatures over both (secure-systems-lab/dsse, protocol v1).

A statement is the same for the same inputs: no times, no random numbers. It may come plain, in an envelope or in the
form an index serves (PEP 740). A signature covers "DSSEv1", the lengths, the type and the payload, so a payload of one
type cannot be passed off as another. Whether it is right is asked of a function: this file knows no keys. And a
CycloneDX 1.5 bill of materials, which lies inside a wheel where PEP 770 wants it (``.dist-info/sboms``).
"""

import base64
import binascii
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rekindle.errors import BadInput

IN_TOTO = "application/vnd.in-toto+json"
WHEEL_LIST = "application/vnd.rekindle.wheel-list+json"
PACK_SUMS = "application/vnd.rekindle.pack-sums"
PROOF_RECORD = "application/vnd.rekindle.proof+json"
_BILLS = uuid.UUID("6f2a3c1e-2f0b-5c8e-9d35-6c1f0a5e7b11")
MAX_ENVELOPE_BYTES = 64 << 20
MAX_SIGNATURES = 16
# Who made a signature: (key id, signature, message) -> name; None where no known key did.
Check = Callable[[str, bytes, bytes], str | None]


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """``signatures``: (key id, signature); the id is only a hint which key to try."""

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed (PAE in the specification)."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def seal(payload_type: str, payload: bytes, key_id: str, sign: Callable[[bytes], bytes]) -> bytes:
    signatures = [{"keyid": key_id, "sig": _to_base64(sign(pre_authentication(payload_type, payload)))}]
    made = {"payload": _to_base64(payload), "payloadType": payload_type, "signatures": signatures}
    return (json.dumps(made, indent=1) + "\n").encode("ascii")


def read_envelope(raw: bytes, origin: str) -> Envelope:
    """Anything wrong with it is a :class:`BadInput` that names the place."""
    if len(raw) > MAX_ENVELOPE_BYTES:
        raise BadInput(f"{origin} is larger than {MAX_ENVELOPE_BYTES >> 20} MiB, so it is no envelope of ours")
    try:
        envelope: Any = json.loads(raw)
        if not isinstance(envelope, Mapping):
            raise TypeError("no object")
        kind, payload = envelope["payloadType"], _from_base64(envelope["payload"])
        signatures = tuple((str(row.get("keyid", "")), _from_base64(row["sig"])) for row in envelope["signatures"])
        if not isinstance(kind, str):
            raise TypeError("payloadType is no text")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{origin} is no signed envelope (DSSE): {error}") from error
    if not 0 < len(signatures) <= MAX_SIGNATURES:
        raise BadInput(f"{origin} has {len(signatures)} signatures; 1 to {MAX_SIGNATURES} are read")
    return Envelope(payload_type=kind, payload=payload, signatures=signatures)


def read_provenance(raw: bytes, origin: str) -> Envelope:
    """The same from the form an index serves beside a wheel (PEP 740): the first attestation in it."""
    try:
        (bundle, *_) = json.loads(raw)["attestation_bundles"]
        (made, *_) = bundle["attestations"]
        payload, signature = _from_base64(made["envelope"]["statement"]), _from_base64(made["envelope"]["signature"])
        key_id = str((made.get("verification_material") or {}).get("key_id", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{origin} is no provenance of an index (PEP 740): {error}") from error
    return Envelope(payload_type=IN_TOTO, payload=payload, signatures=((key_id, signature),))


def provenance_object(envelope: bytes, origin: str) -> bytes:
    """A statement's envelope in the shape of PEP 740, which the index serves beside the wheel. PEP 740 asks for a
    Sigstore certificate. A key of one's own has none, so ``verification_material`` names the key; tools that insist on
    Sigstore refuse it, as they should, and ``verify --claims`` checks it."""
    read = read_envelope(envelope, origin)
    attestations: list[dict[str, Any]] = []
    for key_id, signature in read.signatures:
        material: dict[str, Any] = {"certificate": None, "transparency_entries": [], "key_id": key_id}
        signed = {"statement": _to_base64(read.payload), "signature": _to_base64(signature)}
        attestations.append({"version": 1, "verification_material": material, "envelope": signed})
    publisher = {"kind": "own-key", "claims": None}
    made = {"version": 1, "attestation_bundles": [{"publisher": publisher, "attestations": attestations}]}
    return (json.dumps(made, indent=1, sort_keys=True) + "\n").encode()


def _to_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _from_base64(text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError("no base64 text")
    # Some tools write the URL-safe alphabet; the specification lets a reader take both.
    plain = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from error


def signed_by(envelope: Envelope, check: Check) -> str | None:
    """Who signed it, where ``check(key id, signature, message)`` knows one of the keys; None where none fits."""
    message = pre_authentication(envelope.payload_type, envelope.payload)
    names = (check(key_id, signature, message) for key_id, signature in envelope.signatures)
    return next((name for name in names if name is not None), None)


class Statement(NamedTuple):
    """What a file says, and the ``envelope`` it came in; None where nobody signed it."""

    content: Mapping[str, Any]
    envelope: Envelope | None = None

    @property
    def subjects(self) -> dict[str, str]:
        """The SHA-256 of each file it speaks about; what is no such row is none."""
        rows = self.content.get("subject")
        named = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
        return {str(row.get("name")): str(sub_table(row, "digest").get("sha256")) for row in named}

    @property
    def definition(self) -> Mapping[str, Any]:
        """How it was made: inputs, settings, materials."""
        return sub_table(self.content, "predicate", "buildDefinition")


def sub_table(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The table that lies behind these names; empty where a stranger's statement has something else there."""
    place: Any = document
    for name in names:
        place = place.get(name) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def read_statement(raw: bytes, origin: str) -> Statement:
    """Anything wrong with it is a :class:`BadInput` that names the place."""
    try:
        document = json.loads(raw)
        envelope = None
        if isinstance(document, Mapping) and ("payload" in document or "attestation_bundles" in document):
            envelope = (read_envelope if "payload" in document else read_provenance)(raw, origin)
            document = json.loads(envelope.payload)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{origin} holds no readable statement: {error}") from error
    if not isinstance(document, Mapping):
        raise BadInput(f"{origin} holds no readable statement")
    return Statement(document, envelope)


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


def render_bill(product: Mapping[str, Any], components: Sequence[Mapping[str, Any]], *, tool_version: str) -> bytes:
    """``product`` is what it is about, ``components`` what is inside it or made it; equal bytes for equal content."""
    tool = {"type": "application", "name": "rekindle", "version": tool_version}
    metadata = {"component": dict(product), "tools": {"components": [tool]}}
    body: dict[str, Any] = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": metadata}
    body["components"] = [dict(each) for each in components]
    whole = {**body, "serialNumber": f"urn:uuid:{uuid.uuid5(_BILLS, json.dumps(body, sort_keys=True))}"}
    return (json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()
