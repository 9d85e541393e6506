"""``index build --variants``: variant wheels for every wheel of the house that can be said to have one.

They lie under ``variants/<project>/`` beside a small record (``.variant.json``) that names the plain wheel they were
made from, by digest: one that is up to date is kept. The plain wheels stay: pip knows nothing of variants. What a wheel
asks of the hardware comes from its inspection; one without GPU code is the null variant, which everybody can install.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from packaging.version import Version

from rekindle import __version__
from rekindle.compat.driver import Side, last_cuda, least_cuda
from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.formats.rewrite import Rewriter, folder_of
from rekindle.formats.statement import IN_TOTO, provenance_object, read_statement, seal, write_statement
from rekindle.host.files import sha256_of, whole_file, write_atomically
from rekindle.host.keys import PrivateKey
from rekindle.index.pages.fields import version_key
from rekindle.index.wheelhouse.reading import parse_name
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.document import Document, encode, load_kept, shared_fields
from rekindle.model.progress import Progress
from rekindle.model.toml import read_beside
from rekindle.model.version import flavour_name, key
from rekindle.model.wheelhouse import VariantRow, WheelRow

FOLDER = "variants"
NULL = "null"
MAX_LABEL = 40
Properties = dict[str, dict[str, list[str]]]
_PROVIDER = read_beside(__file__, "variants.toml", dict[str, Any])


class Variant(NamedTuple):
    """``note`` is for people: what the standard cannot say about this wheel."""

    label: str
    properties: Properties
    note: str = ""


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
    house: Wheelhouse, rows: Sequence[WheelRow], facts: Facts, progress: Progress, signer: PrivateKey | None = None
) -> tuple[list[VariantRow], list[str]]:
    """Every variant of the house, and what could not become one, in words. With a key each is signed for itself."""
    built: list[VariantRow] = []
    taken: dict[str, str] = {}
    labels: dict[tuple[str, str, str], Properties] = {}
    nameless = [row for row in rows if not version_key(row.version)[0]]
    left = [f"{row.file}: its record says {row.version!r}, which is no version" for row in nameless]
    # Of wheels that differ only in their local version the newest wins, so look at it first.
    for row in sorted(rows, key=lambda each: (each.project, version_key(each.version)), reverse=True):
        if row in nameless or row.yanked is not None:
            continue
        variants = variants_of(row, facts)
        if not variants:
            left.append(f"{row.file}: {_why_no_variant(row)}")
        for candidate in variants:
            variant = _with_own_label(candidate, row, labels)
            file = variant_file(row.file, variant.label)
            if file in taken:
                left.append(f"{row.file}: {taken[file]} already is the variant {variant.label} of this release")
                continue
            taken[file] = row.file
            progress.stage("variant", file)
            built.append(_refresh_variant(house, row, variant, file, signer))
            if variant.label == NULL:
                # For pip and everybody else who knows nothing of variants: the wheel that runs everywhere.
                plain = variant_file(row.file, "")
                built.append(_refresh_variant(house, row, Variant("", {}), plain, signer))
    # Variants of wheels that are no longer offered go.
    offered = {house.root / FOLDER / made.project / made.file for made in built}
    for record in (house.root / FOLDER).glob("*/*.whl.variant.json"):
        place = record.with_name(record.name.removesuffix(".variant.json"))
        for path in () if place in offered else (record, Path(f"{place}.metadata"), Path(f"{place}.provenance"), place):
            with contextlib.suppress(OSError):
                path.unlink()
    return built, left


def _with_own_label(variant: Variant, row: WheelRow, labels: dict[tuple[str, str, str], Properties]) -> Variant:
    """A label means one thing in a release: a wheel that asks for something else gets a label of its own."""
    release = (row.project, Version(row.version).public)
    if labels.setdefault((*release, variant.label), variant.properties) == variant.properties:
        return variant
    digest = hashlib.sha256(json.dumps(variant.properties).encode()).hexdigest()[:6]
    other = variant._replace(label=f"{variant.label}_{digest}")
    labels[(*release, other.label)] = other.properties
    return other


def _why_no_variant(row: WheelRow) -> str:
    if not row.inspected:
        return "never looked into, so nothing can be promised about it"
    return "installers know no AMD variants yet" if row.gfx or row.rocm else "its CUDA version is not known"


def _refresh_variant(
    house: Wheelhouse, row: WheelRow, variant: Variant, file: str, signer: PrivateKey | None
) -> VariantRow:
    place = house.root / FOLDER / row.project / file
    record = place.with_name(f"{file}.variant.json")
    kept = load_kept(record, VariantRecord)
    # The plain wheel by name and digest, and the signed statement about it, where there is one.
    origin = {"variant_of.json": json.dumps({"file": row.file, "sha256": row.sha256}).encode() + b"\n"}
    statement = house.wheel(row.project, row.file).with_name(f"{row.file}.provenance")
    if row.provenance and statement.is_file():
        origin["variant_of.provenance"] = statement.read_bytes()
    digest = hashlib.sha256(b"".join(origin.values())).hexdigest()
    wanted: dict[str, Any] = {"plain_sha256": row.sha256, "origin": digest, **shared_fields(variant, VariantRecord)}
    if kept is None or any(getattr(kept, name) != value for name, value in wanted.items()) or not place.is_file():
        record.unlink(missing_ok=True)
        content = write_variant(house.wheel(row.project, row.file), place, variant, origin)
        write_atomically(place.with_name(f"{file}.metadata"), content)
        written: dict[str, Any] = {"sha256": sha256_of(place), "bytes": place.stat().st_size}
        kept = VariantRecord(**wanted, **written, metadata_sha256=hashlib.sha256(content).hexdigest())
        # Written last: a kill before this makes the wheel again.
        write_atomically(record, encode(kept))
    own: dict[str, Any] = {"file": file, "url": f"{FOLDER}/{row.project}/{file}", "plain": row.file}
    own |= {"note": variant.note, "version": Version(row.version).public, "provenance": None}
    made = VariantRow(**shared_fields(row, VariantRow) | shared_fields(kept, VariantRow) | own)
    is_signed = _keep_statement(place, made, row.sha256, origin.get("variant_of.provenance"), signer)
    return msgspec.structs.replace(made, provenance=f"{made.url}.provenance") if is_signed else made


def release_files(rows: Sequence[VariantRow]) -> dict[tuple[str, str], tuple[str, bytes]]:
    """Name and content of ``NAME-VERSION-variants.json`` per release; without it uv skips the release silently."""
    groups: dict[tuple[str, str], dict[str, Properties]] = {}
    for row in rows:
        if row.label:
            groups.setdefault((row.project, row.version), {})[row.label] = row.properties
    files = {}
    for (project, version), labels in groups.items():
        if set(labels) != {NULL}:
            body = json.dumps(variant_metadata(labels), indent=1, sort_keys=True).encode() + b"\n"
            files[(project, version)] = (f"{project.replace('-', '_')}-{version}-variants.json", body)
    return files


def variant_file(plain: str, label: str) -> str:
    """``torch-2.6.0+cu118-cp311-….whl`` → ``torch-2.6.0-cp311-…-LABEL.whl``; a plain wheel where there is no label."""
    name = parse_name(plain)
    parts = plain.removesuffix(".whl").split("-")
    if len(parts) != 5:
        raise BadInput(f"{plain} has a build tag, and variants cannot carry one", remedy="build it without a build tag")
    parts[1] = name.version.public
    return "-".join([*parts, label] if label else parts) + ".whl"


def write_variant(plain: Path, target: Path, variant: Variant, origin: Mapping[str, bytes]) -> bytes:
    """Write ``target`` whole; returns its METADATA. ``origin``: files for its .dist-info that say which wheel it was
    made from; a statement about the plain wheel's bytes is none about these, but leads back to it."""
    with (
        whole_file(target) as part,
        zipfile.ZipFile(plain) as source,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        infos = [info for info in source.infolist() if not info.is_dir()]
        old = next(i.filename.split("/")[0] for i in infos if i.filename.split("/")[0].endswith(".dist-info"))
        version, metadata = parse_name(plain.name).version.public, b""
        writer = Rewriter(source, out, folder_of(old, version), record=f"{old}/RECORD")
        for info in infos:
            if not info.filename.startswith(f"{old}/"):
                writer.copy(info)
                continue
            content = writer.take_over(info, version, leave=("variant.json", *origin))
            metadata = content if info.filename == f"{old}/METADATA" else metadata
        own = variant_metadata({variant.label: variant.properties}) if variant.label else None
        added = {"variant.json": json.dumps(own, indent=2).encode()} if own else {}
        for tail, content in {**added, **origin}.items():
            writer.add(f"{writer.folder}/{tail}", [content])
        writer.finish()
    return metadata


def _keep_statement(
    place: Path, row: VariantRow, plain_sha256: str, plain_statement: bytes | None, signer: PrivateKey | None
) -> bool:
    """Is there, afterwards, a statement beside the wheel ``place`` that is about exactly these bytes? It leads back to
    the plain wheel's by digest, so that the chain from the installed file to the build has no gap. Without a key the
    one that is there stays, if it speaks of them."""
    path = place.with_name(f"{place.name}.provenance")
    old = path.read_bytes() if path.is_file() else None
    if signer is not None:
        materials: list[dict[str, Any]] = [{"uri": row.plain, "digest": {"sha256": plain_sha256}}]
        if plain_statement is not None:
            digest = hashlib.sha256(plain_statement).hexdigest()
            materials.append({"uri": f"{row.plain}.provenance", "digest": {"sha256": digest}})
        said = write_statement(
            [(row.file, row.sha256)],
            kind="rekindle/variant/v1",
            asked={"label": row.label, "plain": row.plain},
            settings={"properties": row.properties},
            materials=materials,
            tools={"rekindle": __version__},
        )
        signed = provenance_object(seal(IN_TOTO, said, signer.id, signer.sign), path.name)
        if signed != old:
            write_atomically(path, signed)
        return True
    with contextlib.suppress(BadInput):
        if old is None or read_statement(old, row.file).subjects == {row.file: row.sha256}:
            return old is not None
    path.unlink()
    return False


def first_visible_arch() -> Sm:
    """The oldest compute capability that installers are told."""
    return parse_sm(str(_PROVIDER["provider"]["nvidia"]["first_arch"]))


def variants_of(row: WheelRow, facts: Facts) -> tuple[Variant, ...]:
    """The variants of one wheel; none where we cannot say what it asks for (never looked into, or AMD)."""
    if not row.inspected or row.gfx or row.rocm:
        return ()
    if not row.sass and not row.ptx:
        return (Variant(NULL, {}),)
    side: Side = "windows" if "windows" in row.systems else "linux"
    lower = least_cuda(row.cuda, side, facts) if row.cuda else None
    if lower is None:
        return ()
    first, variants = first_visible_arch(), []
    sass, ptx = (sorted({sm for sm in map(parse_sm, names) if not sm.suffix}) for names in (row.sass, row.ptx))
    new, old = [sm for sm in sass if sm >= first], [sm for sm in sass if sm < first]
    nvidia = {"cuda_version_lower_bound": [lower]}
    targets = [f"{sm.number}_real" for sm in new] + [f"{sm.number}_virtual" for sm in ptx if sm >= first]
    if targets:
        variants.append(Variant(_make_label(row, new), {"nvidia": {**nvidia, "sm_arch": targets}}))
    if old:
        if ends := [end for sm in old if (end := last_cuda(sm, side, facts))]:
            # An upper bound is exclusive: the first version that is too new.
            major, last = max(ends, key=key).split(".")
            nvidia["cuda_version_upper_bound"] = [f"{major}.{int(last) + 1}"]
        names = " ".join(map(str, old))
        note = f"{names}: bound by the driver alone; installers see no compute capability below {first.dotted}"
        variants.append(Variant(_make_label(row, old), {"nvidia": nvidia}, note))
    return tuple(variants)


def _make_label(row: WheelRow, archs: list[Sm]) -> str:
    """``cu118_35_90``; long lists by their ends and a digest, so that two lists never share a label."""
    toolkit = flavour_name(row.cuda, None)
    numbers = [str(sm.number) for sm in archs]
    label = "_".join([toolkit, *numbers])
    if len(label) <= MAX_LABEL:
        return label
    digest = hashlib.sha256(label.encode()).hexdigest()[:6]
    return f"{toolkit}_{numbers[0]}_to_{numbers[-1]}_{digest}"


def variant_metadata(variants: Mapping[str, Properties]) -> dict[str, Any]:
    """``variant.json`` (one label) and ``NAME-VERSION-variants.json`` (all of a release) have the same form."""
    provider = {name: _PROVIDER["provider"]["nvidia"][name] for name in ("requires", "plugin-api")}
    return {
        "$schema": _PROVIDER["schema"],
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {"nvidia": provider},
        "variants": {label: variants[label] for label in sorted(variants)},
    }
