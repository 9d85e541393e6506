"""A patch file: a header in the manner of DEP-3, a line ``---``, then a unified diff. See docs/patches.md.

``Patch`` is one such file, read and checked. Its id is the file's name without ``.patch``. Whether it is needed say
the ``Applies-To`` lines against a ``Context``, in three values. Unknown is not no: a patch that hangs on a fact nobody
told us is reported as undecided with the name of that fact, and is not applied behind the user's back.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from rekindle.errors import BadInput
from rekindle.host.files import read_head
from rekindle.model.document import plain_utf8, read_bounded
from rekindle.source.patches.diff import FileDiff, read_diff
from rekindle.source.paths import check_relative

HOME = Path(__file__).parent
REQUIRED = ("Description", "Origin", "Applies-To", "Last-Update")
# Of one line; the first of several counts.
ONCE = ("Bug", "Evidence", "Instead", "Group")
KNOWN = (*REQUIRED, *ONCE, "Author", "Forwarded", "Example")
MAX_PATCH_BYTES = 4 << 20
_FIELD = re.compile(r"([A-Za-z][A-Za-z-]*):(?:\s+(.*))?$")
_DATE = re.compile(r"20\d\d-[01]\d-[0-3]\d$")
ABSENT = "none"  # "there is no CUDA in this build" is known; None is "nobody said".
VERSIONED = (
    *("version", "cmake", "setuptools", "python", "numpy", "glibc"),
    *("cuda", "rocm", "cudnn", "fmt", "policy-minimum"),
)
NAMED = ("os", "backend", "arch", "cpuinfo", "place")
KEYS = (*VERSIONED, *NAMED, "compiler", "file")
MAX_FILE_BYTES = 8 << 20
Verdict = Literal["needed", "not-needed", "unknown"]


@dataclass(frozen=True)
class Patch:
    """One fix. ``applies`` holds alternatives; a patch is needed where all conditions of one of them hold. ``instead``
    says what makes the patch unnecessary (an environment variable, a pin). Of the patches that share a ``group`` only
    the first that is needed counts: variants of one fix for different versions. ``example`` is a build that needs it
    (what the tests try it with)."""

    id: str
    project: str
    title: str
    why: str
    origin: str
    date: str
    applies: "tuple[tuple[Condition, ...], ...]"
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
        """The files it changes, each once."""
        return tuple(dict.fromkeys(diff.path for diff in self.files))


@cache
def load_patches(project: str, folder: Path | None = None) -> tuple[Patch, ...]:
    """Every patch we have for a project, in the order in which they apply (that of their file names)."""
    where = folder or HOME / project
    return tuple(read_patch(path, project) for path in sorted(where.glob("*.patch")))


def read_patch(path: Path, project: str) -> Patch:
    """A patch file, without what Windows puts around a text: UTF-16, a mark at the beginning, CRLF in every line."""
    try:
        raw = plain_utf8(read_bounded(path, MAX_PATCH_BYTES, "patch"))
    except UnicodeDecodeError as error:
        raise BadInput(f"{path.name} begins as UTF-16 text and is none", remedy="save it as UTF-8") from error
    # Where not every line ends so, it is the tree's business.
    if raw.count(b"\r\n") == raw.count(b"\n"):
        raw = raw.replace(b"\r\n", b"\n")
    return parse_patch(raw, project, id=path.stem, origin=path.name)


def parse_patch(raw: bytes, project: str, *, id: str, origin: str) -> Patch:
    """A patch from its text; ``origin`` is what refusals call it."""
    head, mark, diff = raw.partition(b"\n---\n")
    if not mark:
        raise BadInput(f"{origin} has no line '---' between its header and its diff")
    fields = _read_fields(head, origin)
    if missing := [name for name in REQUIRED if name not in fields]:
        raise BadInput(f"{origin} lacks {', '.join(missing)} in its header", remedy="docs/patches.md shows one")
    date = fields["Last-Update"][0]
    if not _DATE.match(date):
        raise BadInput(f"{origin}: Last-Update is {date!r}, not a date such as 2026-11-15")
    blocks = [[line for line in block.splitlines() if line.strip()] for block in fields["Applies-To"]]
    applies = tuple(tuple(read_condition(line, origin=origin) for line in block) for block in blocks)
    if not all(applies):
        raise BadInput(f"{origin}: Applies-To says nothing; 'version *' means every version")
    title, _, why = fields["Description"][0].partition("\n")
    files = read_diff(diff, origin=origin)
    for file in files:
        check_relative(file.path, origin=origin)
        if not (file.creates or file.deletes) and not all(hunk.before and hunk.after for hunk in file.hunks):
            bare = f"adds or removes lines in {file.path} with nothing around them to find the place by"
            raise BadInput(f"{origin} {bare}")
    return Patch(
        id=id,
        project=project,
        title=title,
        why=" ".join(why.split()),
        origin=fields["Origin"][0],
        date=date,
        applies=applies,
        files=files,
        sha256=hashlib.sha256(raw).hexdigest(),
        raw=raw,
        example=_example(fields.get("Example", [""])[0], origin),
        **{name.lower(): " ".join(fields[name][0].split()) for name in ONCE if name in fields},
    )


def _example(block: str, origin: str) -> dict[str, str]:
    """``version 2.6.0``, ``compiler gcc 14.2``: a fact per line, as the context of a build has them."""
    facts: dict[str, str] = {}
    for line in filter(None, map(str.strip, block.splitlines())):
        key, _, value = line.partition(" ")
        if key not in KEYS or key == "file" or not value.strip():
            raise BadInput(f"{origin}: Example cannot read {line!r}", remedy="write for example 'compiler gcc 14.2'")
        facts[key] = value.strip()
    return facts


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


@dataclass(frozen=True)
class Context:
    """What a patch may ask about: the tree's version, the tools that will build it, the tree itself. ``facts`` maps a
    key of ``KEYS`` to its value: a version, a name, ``"gcc 13.2"`` for the compiler, or ``ABSENT``. A missing key or
    None is unknown."""

    facts: Mapping[str, str | None] = field(default_factory=dict)
    root: Path | None = None

    def get(self, key: str) -> str | None:
        """The fact of this key; None where nobody knows."""
        if (value := self.facts.get(key)) is None and key == "place" and self.root is not None:
            return "blanks" if " " in str(self.root.absolute()) else "plain"
        # Nobody sets CMAKE_POLICY_VERSION_MINIMUM unless they say so.
        return "0" if value is None and key == "policy-minimum" else value


@dataclass(frozen=True)
class Condition:
    """One line: a key and its alternatives, each a name and a version range (either may be empty)."""

    key: str
    text: str
    alternatives: tuple[tuple[str, str], ...] = ()
    path: str = ""
    contains: str = ""
    lacks: str = ""

    def __str__(self) -> str:
        return f"{self.key} {self.text}"

    def holds(self, context: Context) -> bool | None:
        """Does it hold? None where what it hangs on is not known."""
        if self.key == "file":
            return self._holds_file(context.root)
        if (value := context.get(self.key)) is None:
            return None
        if value == ABSENT:
            return False
        answers = [self._holds_one(name, versions, value) for name, versions in self.alternatives]
        return True if True in answers else None if None in answers else False

    def _holds_one(self, name: str, versions: str, value: str) -> bool | None:
        actual, _, number = value.partition(" ") if self.key in ("compiler", *NAMED) else ("", "", value)
        if actual != name or not versions:
            return actual == name
        try:
            return SpecifierSet(versions).contains(Version(number), prereleases=True)
        except InvalidVersion:
            return None

    def _holds_file(self, root: Path | None) -> bool | None:
        if root is None:
            return None
        file = root / self.path
        if not file.is_file():
            return False
        content = read_head(file, MAX_FILE_BYTES) if self.contains or self.lacks else b""
        return self.contains.encode() in content and not (self.lacks and self.lacks.encode() in content)


def read_condition(line: str, *, origin: str) -> Condition:
    """``cmake >=4``, ``compiler gcc >=14 | clang >=19``, ``os windows``, ``file PATH contains TEXT``."""
    key, _, text = line.strip().partition(" ")
    text = text.strip()
    if key not in KEYS or not text:
        raise BadInput(f"{origin}: cannot read the condition {line.strip()!r}", remedy=f"keys are {', '.join(KEYS)}")
    if key == "file":
        path, _, contains = text.partition(" contains ")
        path, _, lacks = path.partition(" lacks ")
        return Condition(key, text, path=path.strip(), contains=contains.strip(), lacks=lacks.strip())
    alternatives = []
    for piece in text.split("|"):
        name, _, versions = ("", "", piece.strip()) if key in VERSIONED else piece.strip().partition(" ")
        versions = "" if versions.strip() == "*" else versions.strip()
        try:
            SpecifierSet(versions)
        except InvalidSpecifier as error:
            raise BadInput(f"{origin}: {versions!r} is no version range (such as >=4, <4.2)") from error
        alternatives.append((name, versions))
    return Condition(key, text, tuple(alternatives))


def holds(alternatives: tuple[tuple[Condition, ...], ...], context: Context) -> tuple[Verdict, str]:
    """Whether any of the ``Applies-To`` blocks holds, and the condition that decided it."""
    verdict: Verdict = "not-needed"
    why = ""
    for conditions in alternatives:
        answers = [(condition, condition.holds(context)) for condition in conditions]
        failed = next((condition for condition, answer in answers if answer is False), None)
        if failed is not None:
            here = context.get(failed.key)
            why = why or f"needs {failed}" + (f"; here it is {here}" if here else "")
            continue
        unknown = [str(condition) for condition, answer in answers if answer is None]
        if not unknown:
            return "needed", "; ".join(map(str, conditions))
        verdict, why = "unknown", f"depends on {', '.join(unknown)}, which is not known here"
    return verdict, why
