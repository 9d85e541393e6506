"""When a patch is needed: the ``Applies-To`` lines of its header against a ``Context``.

Answers are three-valued. Unknown is not no: a patch that hangs on a fact nobody told us is reported as
undecided with the name of that fact, and is not applied behind the user's back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rekindle.errors import BadInput
from rekindle.model.version import matches

ABSENT = "none"  # "there is no CUDA in this build" is known; None is "nobody said".
VERSIONED = (
    *("version", "cmake", "setuptools", "python", "numpy", "glibc"),
    *("cuda", "rocm", "cudnn", "fmt", "policy-minimum"),
)
NAMED = ("os", "backend", "arch", "cpuinfo", "place")
KEYS = (*VERSIONED, *NAMED, "compiler", "file")
MAX_FILE_BYTES = 8 << 20

# What is written so means the same to PEP 440 and to us; anything else (2.15.0a0+git) is read by PEP 440 alone.
_PLAIN = re.compile(r"\d+(?:\.\d+)*")
_PLAIN_RANGE = re.compile(r"(?:>=|<=|>|<|==|!=)\s*\d+(?:\.\d+)*(?:\s*,\s*(?:>=|<=|>|<|==|!=)\s*\d+(?:\.\d+)*)*")

Verdict = Literal["needed", "not-needed", "unknown"]


@dataclass(frozen=True)
class Context:
    """What a patch may ask about: the tree's version, the tools that will build it, the tree itself.

    ``facts`` maps a key of ``KEYS`` to its value: a version, a name, ``"gcc 13.2"`` for the compiler, or
    ``ABSENT``. A missing key or None is unknown.
    """

    facts: Mapping[str, str | None] = field(default_factory=dict)
    root: Path | None = None

    def get(self, key: str) -> str | None:
        """What is known of it; None where nobody said."""
        value = self.facts.get(key)
        if value is None and key == "place" and self.root is not None:
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
        value = context.get(self.key)
        if value is None:
            return None
        if value == ABSENT:
            return False
        answers = [self._holds_one(name, versions, value) for name, versions in self.alternatives]
        return True if True in answers else None if None in answers else False

    def _holds_one(self, name: str, versions: str, value: str) -> bool | None:
        said, _, number = value.partition(" ") if self.key in ("compiler", *NAMED) else ("", "", value)
        if said != name:
            return False
        return _within(number, versions) if versions else True

    def _holds_file(self, root: Path | None) -> bool | None:
        if root is None:
            return None
        file = root / self.path
        if not file.is_file():
            return False
        if not self.contains and not self.lacks:
            return True
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES)
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
        _check_range(versions, origin)
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
        unknown = [condition for condition, answer in answers if answer is None]
        if not unknown:
            return "needed", "; ".join(map(str, conditions))
        verdict = "unknown"
        why = f"depends on {', '.join(map(str, unknown))}, which is not known here"
    return verdict, why


def _check_range(versions: str, origin: str) -> None:
    if not versions or _PLAIN_RANGE.fullmatch(versions):
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(versions)
    except InvalidSpecifier as error:
        raise BadInput(f"{origin}: {versions!r} is no version range (such as >=4, <4.2)") from error


def _within(number: str, versions: str) -> bool | None:
    """Is it in the range? None if it is no version. PEP 440 is only loaded where it says something else than we do."""
    if _PLAIN.fullmatch(number) and _PLAIN_RANGE.fullmatch(versions):
        return matches(number, versions)
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return SpecifierSet(versions).contains(Version(number), prereleases=True)
    except InvalidVersion:
        return None
