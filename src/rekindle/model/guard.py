"""``guard``: is the torch in an environment still the one that was meant, and who replaced it?"""

from __future__ import annotations

from rekindle.model.document import Document, Line, Part


class PackageRecord(Part, frozen=True, kw_only=True):
    """A package as pip left it: ``asked`` for by name (REQUESTED), by which ``installer``, ``when``, from where."""

    name: str
    version: str
    asked: bool = False
    installer: str = ""
    when: float = 0.0
    url: str | None = None
    requires: tuple[str, ...] = ()


class Culprit(Part, frozen=True, kw_only=True):
    """Who brought the other version. ``certain`` where its own metadata forbids the one that was there."""

    name: Line
    version: Line
    wants: Line
    asked: bool
    certain: bool


class Replaced(Part, frozen=True, kw_only=True):
    """One package that is not what it should be; ``now`` is None where it is gone."""

    name: Line
    was: Line
    now: Line | None = None
    culprits: tuple[Culprit, ...] = ()
    why: Line = ""
    restore: tuple[Line, ...] = ()


class GuardReport(Document, frozen=True, kw_only=True):
    """``kept`` says which file holds what was meant; without one nothing can be replaced, only recorded."""

    python: Line
    kept: Line | None = None
    expected: dict[str, Line] = {}
    found: dict[str, Line] = {}
    replaced: tuple[Replaced, ...] = ()
    written: bool = False

    @property
    def good(self) -> bool:
        """Is every torch that was looked at still the one that was put there?"""
        return not self.replaced
