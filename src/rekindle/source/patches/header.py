"""A patch file: a header in the manner of DEP-3, a line ``---``, then a unified diff. See docs/patches.md.

``Patch`` is one such file, read and checked. Its id is the file's name without ``.patch``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.model.document import plain_utf8, read_bounded
from rekindle.source.patches.conditions import KEYS, Condition, read_condition
from rekindle.source.patches.diff import FileDiff, read_diff
from rekindle.source.paths import check_relative

HOME = Path(__file__).parent
REQUIRED = ("Description", "Origin", "Applies-To", "Last-Update")
KNOWN = (*REQUIRED, "Author", "Bug", "Forwarded", "Instead", "Evidence", "Group", "Example")
MAX_PATCH_BYTES = 4 << 20
_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*):(?:\s+(.*))?$")
_DATE = re.compile(r"20\d\d-[01]\d-[0-3]\d$")


@dataclass(frozen=True)
class Patch:
    """One fix. ``applies`` holds alternatives; a patch is needed where all conditions of one of them hold.

    ``instead`` says what makes the patch unnecessary (an environment variable, a pin). Of the patches that
    share a ``group`` only the first that is needed counts: variants of one fix for different versions.
    ``example`` is a build that needs it (what the tests try it with).
    """

    id: str
    project: str
    title: str
    why: str
    origin: str
    date: str
    applies: tuple[tuple[Condition, ...], ...]
    files: tuple[FileDiff, ...]
    sha256: str
    raw: bytes = field(repr=False, compare=False)
    bug: str | None = None
    evidence: str | None = None
    instead: str | None = None
    group: str | None = None
    example: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(diff.path for diff in self.files))


@cache
def load_patches(project: str, folder: Path | None = None) -> tuple[Patch, ...]:
    """Every patch we have for a project, in the order in which they apply (that of their file names)."""
    where = folder or HOME / project
    return tuple(read_patch(path, project) for path in sorted(where.glob("*.patch")))


def read_patch(path: Path, project: str) -> Patch:
    raw = _as_written(read_bounded(path, MAX_PATCH_BYTES, "patch"), path.name)
    return parse_patch(raw, project, id=path.stem, origin=path.name)


def _as_written(raw: bytes, origin: str) -> bytes:
    """Without what Windows puts around a text: PowerShell's UTF-16, a mark at the beginning, CRLF in every line.

    A file whose every line ends in CRLF was turned over as a whole; how a tree's own lines end is the tree's business.
    """
    try:
        raw = plain_utf8(raw)
    except UnicodeDecodeError as error:
        raise BadInput(f"{origin} begins as UTF-16 text and is none", remedy="save it as UTF-8") from error
    return raw.replace(b"\r\n", b"\n") if raw.count(b"\r\n") == raw.count(b"\n") else raw


def parse_patch(raw: bytes, project: str, *, id: str, origin: str) -> Patch:
    head, found, diff = raw.partition(b"\n---\n")
    if not found:
        raise BadInput(f"{origin} has no line '---' between its header and its diff")
    fields = _read_fields(head, origin)
    missing = [name for name in REQUIRED if name not in fields]
    if missing:
        raise BadInput(f"{origin} lacks {', '.join(missing)} in its header", remedy="docs/patches.md shows one")
    date = fields["Last-Update"][0]
    if not _DATE.match(date):
        raise BadInput(f"{origin}: Last-Update is {date!r}, not a date such as 2026-11-15")
    title, _, why = fields["Description"][0].partition("\n")
    files = read_diff(diff, origin=origin)
    for file in files:
        check_relative(file.path, origin=origin)
        if not (file.creates or file.deletes) and not all(hunk.before and hunk.after for hunk in file.hunks):
            raise BadInput(
                f"{origin} adds or removes lines in {file.path} with nothing around them to find the place by"
            )
    return Patch(
        id=id,
        project=project,
        title=title,
        why=" ".join(why.split()),
        origin=fields["Origin"][0],
        date=date,
        applies=tuple(_conditions(block, origin) for block in fields["Applies-To"]),
        files=files,
        sha256=hashlib.sha256(raw).hexdigest(),
        raw=raw,
        bug=_one(fields, "Bug"),
        evidence=_one(fields, "Evidence"),
        instead=_one(fields, "Instead"),
        group=_one(fields, "Group"),
        example=_example(fields.get("Example", [""])[0], origin),
    )


def _one(fields: dict[str, list[str]], name: str) -> str | None:
    return " ".join(fields[name][0].split()) if name in fields else None


def _example(block: str, origin: str) -> dict[str, str]:
    """``version 2.6.0``, ``compiler gcc 14.2``: a fact per line, as the context of a build has them."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, block.splitlines())):
        key, _, value = line.partition(" ")
        if key not in KEYS or key == "file" or not value.strip():
            raise BadInput(f"{origin}: Example cannot read {line!r}", remedy="write for example 'compiler gcc 14.2'")
        found[key] = value.strip()
    return found


def _conditions(block: str, origin: str) -> tuple[Condition, ...]:
    lines: Sequence[str] = [line for line in block.splitlines() if line.strip()]
    if not lines:
        raise BadInput(f"{origin}: Applies-To says nothing; 'version *' means every version")
    return tuple(read_condition(line, origin=origin) for line in lines)


def _read_fields(head: bytes, origin: str) -> dict[str, list[str]]:
    """Fields in order; a field given twice (``Applies-To``) keeps both values."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{origin}: the header is not UTF-8") from error
    fields: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith((" ", "\t")) and current is not None:
            # DEP-3 writes an empty line of a long description as " .".
            current[-1] += "\n" + ("" if line.strip() == "." else line.strip())
        elif match := _FIELD.match(line):
            if match[1] not in KNOWN:
                raise BadInput(f"{origin}:{number}: there is no header field {match[1]!r}")
            current = fields.setdefault(match[1], [])
            current.append((match[2] or "").strip())
        else:
            raise BadInput(f"{origin}:{number} is no header line: {line[:60]!r}")
    return fields
