"""A plain wheel written again as a variant wheel: the same files, plus ``variant.json``, under a common version.

All variants of a release must have one version, so a local part (``+cu118``) goes out of the name and the metadata;
what the package itself says (``torch.__version__``) stays. Compressed members are copied as they are.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.formats.rewrite import Rewriter
from rekindle.index.names import parse_name
from rekindle.index.variant_rules import Variant, metadata

_VERSION = re.compile(rb"^Version:[^\r\n]*", re.MULTILINE)


def variant_file(plain: str, label: str) -> str:
    """``torch-2.6.0+cu118-cp311-cp311-linux_x86_64.whl`` → ``torch-2.6.0-cp311-cp311-linux_x86_64-LABEL.whl``.

    Without a label it is a plain wheel under the common version.
    """
    name = parse_name(plain)
    parts = plain.removesuffix(".whl").split("-")
    if len(parts) != 5:
        raise BadInput(f"{plain} has a build tag, and variants cannot carry one", remedy="build it without a build tag")
    parts[1] = name.version.public
    return "-".join([*parts, label] if label else parts) + ".whl"


def write_variant(plain: Path, target: Path, variant: Variant, origin: Mapping[str, bytes] | None = None) -> bytes:
    """Write ``target``; returns its METADATA. The file appears whole or not at all.

    ``origin``: files for its .dist-info that say which wheel it was made from; a statement about the plain wheel's
    bytes is none about these, but leads back to it.
    """
    name = parse_name(plain.name)
    part = target.with_name(f".{target.name}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with zipfile.ZipFile(plain) as source, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as out:
            infos = [info for info in source.infolist() if not info.is_dir()]
            old = next(i.filename.split("/")[0] for i in infos if i.filename.split("/")[0].endswith(".dist-info"))
            stem = old.removesuffix(".dist-info").rpartition("-")[0]
            new = f"{stem}-{name.version.public}.dist-info"
            writer = Rewriter(source, out, new, record=f"{old}/RECORD")
            told = b""
            for info in infos:
                inside = info.filename
                if not inside.startswith(f"{old}/"):
                    writer.copy(info)
                    continue
                tail = inside.removeprefix(f"{old}/")
                writer.rows.pop(inside, None)
                if tail in ("RECORD", "RECORD.jws", "RECORD.p7s", "variant.json", *(origin or ())):
                    continue
                content = source.read(info)
                if tail == "METADATA":
                    content = told = _VERSION.sub(b"Version: " + name.version.public.encode(), content, count=1)
                writer.add(f"{new}/{tail}", [content])
            if variant.label:
                body = json.dumps(metadata({variant.label: variant.properties}), indent=2).encode()
                writer.add(f"{new}/variant.json", [body])
            for tail, content in (origin or {}).items():
                writer.add(f"{new}/{tail}", [content])
            writer.finish()
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return told
