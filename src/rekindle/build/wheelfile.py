"""A wheel made the same from the same content, and where two wheels differ.

``finish_wheel`` writes the wheel anew: entries sorted, one time stamp, plain modes, our additions in the
``.dist-info`` folder, and a fresh RECORD. Building the same tree twice then gives the same bytes.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rekindle.errors import BadInput, StageFailed

_CHUNK = 1 << 20
# What names the builder and not the product: the list of tools, and RECORD, which repeats its digest.
_BUILDER = re.compile(r"\.dist-info/(?:sboms/[^/]+|rekindle\.json|RECORD)$")


def dist_info_of(names: list[str]) -> str:
    folders = {name.split("/", 1)[0] for name in names if name.split("/", 1)[0].endswith(".dist-info")}
    if len(folders) != 1:
        raise StageFailed(f"the wheel has {len(folders)} .dist-info folders instead of one")
    return folders.pop()


def finish_wheel(source: Path, target: Path, *, epoch: int, add: Mapping[str, bytes]) -> None:
    """``add`` maps names inside ``.dist-info`` to contents. ``target`` appears whole or not at all."""
    stamp = time.gmtime(max(epoch, 315532800))[:6]
    beside = target.with_name(f".{target.name}.new")
    rows: list[tuple[str, str, str]] = []
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as new:
        infos = {info.filename: info for info in old.infolist() if not info.is_dir()}
        folder = dist_info_of(list(infos))
        record = f"{folder}/RECORD"
        extra = {f"{folder}/{name}": content for name, content in add.items()}
        # Metadata last, as PEP 427 recommends: readers find it near the end.
        for name in sorted(infos.keys() | extra.keys(), key=lambda n: (n.startswith(folder), n)):
            if name in (record, f"{folder}/RECORD.jws", f"{folder}/RECORD.p7s"):
                continue
            mode = (infos[name].external_attr >> 16) & 0o777 if name in infos else 0o644
            info = _entry(name, stamp, 0o755 if mode & 0o100 else 0o644)
            digest, size = hashlib.sha256(), 0
            large = name in infos and infos[name].file_size > 1 << 31
            with (
                io.BytesIO(extra[name]) if name in extra else old.open(name) as data,
                new.open(info, "w", force_zip64=large) as out,
            ):
                while chunk := data.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
            coded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
            rows.append((name, f"sha256={coded}", str(size)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
        new.writestr(_entry(record, stamp, 0o644), text.getvalue())
    # Opened for writing: Windows refuses to flush what may only be read.
    with beside.open("r+b") as file:
        os.fsync(file.fileno())
    beside.replace(target)


def _entry(name: str, stamp: tuple[int, ...], mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=stamp)  # type: ignore[arg-type]
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o100000 | mode) << 16
    info.create_system = 3
    return info


class Comparison(NamedTuple):
    """``rule`` is set where the two are the same only after it; ``difference`` where they are not."""

    verdict: str
    rule: str | None = None
    difference: str | None = None


def compare_wheels(ours: Path, theirs: Path) -> Comparison:
    """Members by name and content; how they are packed comes second, who built them third."""
    try:
        with zipfile.ZipFile(ours) as a, zipfile.ZipFile(theirs) as b:
            one, other = _digests(a), _digests(b)
            if one == other:
                return Comparison("normalised", rule="packed differently: every file inside has the same bytes")
            plain = [{k: v for k, v in each.items() if not _BUILDER.search(k)} for each in (one, other)]
            if plain[0] == plain[1]:
                rule = (
                    "without rekindle.json, the bill of materials and RECORD, which name each builder's plan and tools"
                )
                return Comparison("normalised", rule=rule)
            return Comparison("different", difference=_first(a, b, *plain))
    except (zipfile.BadZipFile, OSError, RuntimeError, EOFError, NotImplementedError) as error:
        raise BadInput(f"cannot compare {ours.name} with {theirs}: {error}") from error


def _digests(archive: zipfile.ZipFile) -> dict[str, str]:
    found = {}
    for info in archive.infolist():
        total = hashlib.sha256()
        with archive.open(info) as file:
            while chunk := file.read(_CHUNK):
                total.update(chunk)
        found[info.filename] = total.hexdigest()
    return found


def _first(a: zipfile.ZipFile, b: zipfile.ZipFile, one: dict[str, str], other: dict[str, str]) -> str:
    for name in sorted(one.keys() | other.keys()):
        if name not in other:
            return f"{name} is only in the rebuilt wheel"
        if name not in one:
            return f"{name} is only in the original"
        if one[name] != other[name]:
            return _offset(a, b, name)
    return "the order of the files"


def _offset(a: zipfile.ZipFile, b: zipfile.ZipFile, name: str) -> str:
    at = 0
    with a.open(name) as left, b.open(name) as right:
        while True:
            x, y = left.read(_CHUNK), right.read(_CHUNK)
            if x != y:
                near = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
                return f"{name} from byte {at + near} on"
            if not x:
                return name
            at += len(x)
