"""A signed statement about a variant wheel's own bytes: made from that plain wheel, with that label, by this tool.

The statement about the plain wheel says nothing of the variant's bytes. This one does, and leads back to the other by
digest, so that the chain from the installed file to the build has no gap.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rekindle import __version__
from rekindle.errors import BadInput
from rekindle.formats.dsse import IN_TOTO, read_provenance, seal
from rekindle.host.files import write_atomically
from rekindle.index.listing import provenance_object
from rekindle.model.wheelhouse import VariantRow


class Signer(NamedTuple):
    key_id: str
    sign: Callable[[bytes], bytes]


def statement(row: VariantRow, plain_sha256: str, plain_statement: bytes | None) -> bytes:
    """In-toto with an SLSA predicate; the same for the same inputs."""
    materials: list[dict[str, Any]] = [{"uri": row.plain, "digest": {"sha256": plain_sha256}}]
    if plain_statement is not None:
        digest = hashlib.sha256(plain_statement).hexdigest()
        materials.append({"uri": f"{row.plain}.provenance", "digest": {"sha256": digest}})
    made = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": row.file, "digest": {"sha256": row.sha256}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "rekindle/variant/v1",
                "externalParameters": {"label": row.label, "plain": row.plain},
                "internalParameters": {"properties": row.properties},
                "resolvedDependencies": materials,
            },
            "runDetails": {"builder": {"id": "rekindle", "version": {"rekindle": __version__}}},
        },
    }
    return (json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def keep_statement(
    place: Path, row: VariantRow, plain_sha256: str, plain_statement: bytes | None, signer: Signer | None
) -> bool:
    """Is there, afterwards, a statement beside the wheel ``place`` that is about exactly these bytes?

    Without a key the one that is there stays, if it still speaks of them.
    """
    path = place.with_name(f"{place.name}.provenance")
    old = path.read_bytes() if path.is_file() else None
    if signer is not None:
        envelope = seal(IN_TOTO, statement(row, plain_sha256, plain_statement), signer.key_id, signer.sign)
        made = provenance_object(envelope, path.name)
        if made != old:
            write_atomically(path, made)
        return True
    if old is None:
        return False
    if not _about(old, row):
        path.unlink()
        return False
    return True


def _about(raw: bytes, row: VariantRow) -> bool:
    try:
        subjects = json.loads(read_provenance(raw, row.file).payload)["subject"]
        return [(one["name"], one["digest"]["sha256"]) for one in subjects] == [(row.file, row.sha256)]
    except (BadInput, ValueError, KeyError, TypeError):
        return False
