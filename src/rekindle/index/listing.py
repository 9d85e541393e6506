"""The signed, dated list of a wheelhouse: what it holds, since when, and until when that may be believed.

A mirror can remove a wheel, put another in its place, or go on serving last year's state; none of that shows in any
single file. The list names every wheel with its digest, counts up with each edition, and expires.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.formats.dsse import WHEEL_LIST, read_envelope, seal
from rekindle.host.files import write_atomically
from rekindle.index.rows import Piece
from rekindle.index.store import Wheelhouse
from rekindle.model.claims import ListedWheel, WheelList
from rekindle.model.document import decode, encode

LIST_FILE = "wheels.dsse.json"
MAX_LIST_BYTES = 64 << 20
_FORM = "%Y-%m-%dT%H:%M:%SZ"


class _Named(msgspec.Struct):
    """Of a row what the list says; the rest is skipped while reading."""

    file: str
    project: str
    version: str
    sha256: str
    bytes: int
    yanked: str | None = None


class _Edition(msgspec.Struct):
    """Of a list what the next one needs."""

    name: str
    serial: int


def write_list(
    house: Wheelhouse, pieces: Iterable[Piece], key_id: str, sign: Callable[[bytes], bytes], *, days: int, now: datetime
) -> WheelList:
    """The next edition, over the one that was there."""
    rows = msgspec.json.decode(b"[" + b",".join(piece.row for piece in pieces if piece.row) + b"]", type=list[_Named])
    if not 1 <= days <= 3650:
        raise BadInput(f"a list cannot be valid for {days} days", remedy="1 to 3650")
    before = _before(house.root / LIST_FILE)
    made = WheelList(
        name=before.name if before else house.root.resolve().name,
        serial=before.serial + 1 if before else 1,
        made=now.strftime(_FORM),
        expires=(now + timedelta(days=days)).strftime(_FORM),
        wheels=tuple(
            ListedWheel(
                file=row.file,
                project=row.project,
                version=row.version,
                sha256=row.sha256,
                bytes=row.bytes,
                yanked=row.yanked is not None,
            )
            for row in rows
        ),
    )
    write_atomically(house.root / LIST_FILE, seal(WHEEL_LIST, encode(made), key_id, sign))
    return made


def _before(path: Path) -> _Edition | None:
    if not path.is_file():
        return None
    payload = _payload(path.read_bytes(), str(path))
    try:
        return msgspec.json.decode(payload, type=_Edition)
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"{path} is no list of wheels: {error}", remedy="move it away; the next one begins anew"
        ) from error


def read_list(raw: bytes, origin: str) -> WheelList:
    """The payload of a list, whoever signed it."""
    return decode(_payload(raw, origin), WheelList, origin=origin)


def _payload(raw: bytes, origin: str) -> bytes:
    envelope = read_envelope(raw, origin)
    if envelope.payload_type != WHEEL_LIST:
        raise BadInput(f"{origin} is signed, but it is {envelope.payload_type!r}, not a list of wheels")
    return envelope.payload


def moment(text: str) -> datetime:
    try:
        return datetime.strptime(text, _FORM).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadInput(f"{text!r} in the list is no time", remedy="its form is 2026-01-31T12:00:00Z") from error


def provenance_object(envelope: bytes, origin: str) -> bytes:
    """A statement's envelope in the shape of PEP 740, which the index serves beside the wheel.

    PEP 740 asks for a Sigstore certificate. A key of one's own has none, so ``verification_material`` names the key;
    tools that insist on Sigstore refuse it, as they should, and ``verify --claims`` checks it.
    """
    read = read_envelope(envelope, origin)
    signatures: Sequence[tuple[str, bytes]] = read.signatures
    attestations: list[dict[str, Any]] = [
        {
            "version": 1,
            "verification_material": {"certificate": None, "transparency_entries": [], "key_id": key_id},
            "envelope": {"statement": _coded(read.payload), "signature": _coded(signature)},
        }
        for key_id, signature in signatures
    ]
    publisher = {"kind": "own-key", "claims": None}
    made = {"version": 1, "attestation_bundles": [{"publisher": publisher, "attestations": attestations}]}
    return (json.dumps(made, indent=1, sort_keys=True) + "\n").encode()


def _coded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


class Seen(msgspec.Struct, frozen=True):
    """The newest edition of each list that was seen here, by signer and name."""

    lists: dict[str, int] = {}


def last_seen(path: Path, signer: str, name: str) -> int:
    return _load(path).lists.get(f"{signer}/{name}", 0)


def remember(path: Path, signer: str, name: str, serial: int) -> None:
    seen = dict(_load(path).lists)
    if serial > seen.get(f"{signer}/{name}", 0):
        seen[f"{signer}/{name}"] = serial
        write_atomically(path, msgspec.json.encode(Seen(lists=seen)))


def _load(path: Path) -> Seen:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Seen)
    except (OSError, msgspec.MsgspecError):
        return Seen()
