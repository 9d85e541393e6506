"""Two wheels that should be the same: identical, the same after a named rule, or the first byte that differs."""

from __future__ import annotations

import hashlib
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from rekindle.errors import BadInput

_CHUNK = 1 << 20
# What names the builder and not the product: the list of tools, and RECORD, which repeats its digest.
_BUILDER = re.compile(r"\.dist-info/(?:sboms/[^/]+|rekindle\.json|RECORD)$")


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
