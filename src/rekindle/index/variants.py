"""``index build --variants``: variant wheels for every wheel of the house that can be said to have one.

Variant wheels lie under ``variants/<project>/`` beside a small record (``.variant.json``) that names the plain wheel
they were made from, by digest: one that is up to date is kept. The plain wheels stay: pip knows nothing of variants.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.host.files import sha256_of, write_atomically
from rekindle.index.store import Wheelhouse
from rekindle.index.variant_rules import NULL, Properties, Variant, metadata, variants_of
from rekindle.index.variant_statements import Signer, keep_statement
from rekindle.index.variant_wheels import variant_file, write_variant
from rekindle.model.document import Document, decode, encode
from rekindle.model.progress import Progress
from rekindle.model.wheelhouse import Row, VariantRow

FOLDER = "variants"


class VariantRecord(Document, frozen=True, kw_only=True):
    """Which plain wheel a variant wheel was made from, and what its label promises."""

    plain_sha256: str
    label: str
    properties: dict[str, dict[str, list[str]]]
    sha256: str
    bytes: int
    metadata_sha256: str
    # What of the plain wheel's origin is in it; another one is written again.
    origin: str = ""


def build_variants(
    house: Wheelhouse, rows: Sequence[Row], facts: Facts, progress: Progress, signer: Signer | None = None
) -> tuple[list[VariantRow], list[str]]:
    """Every variant of the house, and what could not become one, in words. With a key each is signed for itself."""
    made: list[VariantRow] = []
    left: list[str] = []
    taken: dict[str, str] = {}
    labels: dict[tuple[str, str, str], Properties] = {}
    # Of wheels that differ only in their local version the newest wins, so look at it first.
    for row in sorted(rows, key=lambda each: (each.project, Version(each.version)), reverse=True):
        if row.yanked is not None:
            continue
        found = variants_of(row, facts)
        if not found:
            left.append(f"{row.file}: {_why_none(row)}")
        for variant in (_apart(one, row, labels) for one in found):
            file = variant_file(row.file, variant.label)
            if file in taken:
                left.append(f"{row.file}: {taken[file]} already is the variant {variant.label} of this release")
                continue
            taken[file] = row.file
            progress.stage("variant", file)
            made.append(_brought_up_to_date(house, row, variant, file, signer))
            if variant.label == NULL:
                # For pip and everybody else who knows nothing of variants: the wheel that runs everywhere.
                plain = variant_file(row.file, "")
                made.append(_brought_up_to_date(house, row, Variant("", {}), plain, signer))
    _sweep(house, {(one.project, one.file) for one in made})
    return made, left


def _apart(variant: Variant, row: Row, labels: dict[tuple[str, str, str], Properties]) -> Variant:
    """A label means one thing in a release: wheels for other systems, or with other PTX, that ask for something else
    get a label of their own."""
    release = (row.project, Version(row.version).public)
    if labels.setdefault((*release, variant.label), variant.properties) == variant.properties:
        return variant
    digest = hashlib.sha256(json.dumps(variant.properties, sort_keys=True).encode()).hexdigest()[:6]
    other = variant._replace(label=f"{variant.label}_{digest}")
    labels[(*release, other.label)] = other.properties
    return other


def _why_none(row: Row) -> str:
    if not row.inspected:
        return "never looked into, so nothing can be promised about it"
    if row.gfx or row.rocm:
        return "installers know no AMD variants yet"
    return "its CUDA version is not known"


def _brought_up_to_date(house: Wheelhouse, row: Row, variant: Variant, file: str, signer: Signer | None) -> VariantRow:
    place = house.root / FOLDER / row.project / file
    record = place.with_name(f"{file}.variant.json")
    known = _known(record)
    origin = _origin(house, row)
    digest = hashlib.sha256(b"".join(origin.values())).hexdigest()
    fresh = (
        known is not None
        and known.plain_sha256 == row.sha256
        and known.label == variant.label
        and known.properties == variant.properties
        and known.origin == digest
        and place.is_file()
    )
    if not fresh:
        record.unlink(missing_ok=True)
        told = write_variant(house.wheel(row.project, row.file), place, variant, origin)
        write_atomically(place.with_name(f"{file}.metadata"), told)
        known = VariantRecord(
            plain_sha256=row.sha256,
            label=variant.label,
            properties=variant.properties,
            sha256=sha256_of(place),
            bytes=place.stat().st_size,
            metadata_sha256=hashlib.sha256(told).hexdigest(),
            origin=digest,
        )
        # Written last: a kill before this makes the wheel again.
        write_atomically(record, encode(known))
    assert known is not None
    made = VariantRow(
        file=file,
        url=f"{FOLDER}/{row.project}/{file}",
        project=row.project,
        version=Version(row.version).public,
        label=variant.label,
        properties=variant.properties,
        plain=row.file,
        sha256=known.sha256,
        metadata_sha256=known.metadata_sha256,
        bytes=known.bytes,
        requires_python=row.requires_python,
        added=row.added,
        proven=any(not proof.failed and proof.passed for proof in row.proofs),
        note=variant.note,
    )
    if keep_statement(place, made, row.sha256, origin.get("variant_of.provenance"), signer):
        made = msgspec.structs.replace(made, provenance=f"{made.url}.provenance")
    return made


def _origin(house: Wheelhouse, row: Row) -> dict[str, bytes]:
    """The plain wheel by name and digest, and the signed statement about it, where there is one."""
    said = {"variant_of.json": json.dumps({"file": row.file, "sha256": row.sha256}, sort_keys=True).encode() + b"\n"}
    statement = house.wheel(row.project, row.file).with_name(f"{row.file}.provenance")
    if row.provenance and statement.is_file():
        said["variant_of.provenance"] = statement.read_bytes()
    return said


def _known(record: Path) -> VariantRecord | None:
    try:
        return decode(record.read_bytes(), VariantRecord, origin=str(record))
    except (OSError, BadInput):
        return None


def _sweep(house: Wheelhouse, keep: set[tuple[str, str]]) -> None:
    """Variants of wheels that are no longer offered go."""
    for record in (house.root / FOLDER).glob("*/*.whl.variant.json"):
        file = record.name.removesuffix(".variant.json")
        if (record.parent.name, file) not in keep:
            for name in (record.name, f"{file}.metadata", f"{file}.provenance", file):
                with contextlib.suppress(OSError):
                    (record.parent / name).unlink()


def release_files(rows: Sequence[VariantRow]) -> dict[tuple[str, str], tuple[str, bytes]]:
    """Name and content of ``NAME-VERSION-variants.json`` per release; without it uv skips the release silently."""
    groups: dict[tuple[str, str], dict[str, dict[str, dict[str, list[str]]]]] = {}
    for row in rows:
        if not row.label:
            continue
        groups.setdefault((row.project, row.version), {})[row.label] = {
            space: {name: list(values) for name, values in features.items()}
            for space, features in row.properties.items()
        }
    found = {}
    for (project, version), labels in groups.items():
        if set(labels) == {NULL}:
            continue
        body = json.dumps(metadata(labels), indent=1, sort_keys=True).encode() + b"\n"
        found[(project, version)] = (f"{project.replace('-', '_')}-{version}-variants.json", body)
    return found
