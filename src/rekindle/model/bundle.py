"""What ``bundle`` did or would do: the libraries brought along, what was left out and why, sizes before and after."""

from typing import Literal

from rekindle.model.document import Document, Part


class Brought(Part, frozen=True, kw_only=True):
    """A file that goes into the wheel. ``why`` is who needs it."""

    file: str
    origin: str
    bytes: int
    why: str
    licence: str | None = None


class Left(Part, frozen=True, kw_only=True):
    """A library that the wheel needs and that stays outside."""

    name: str
    why: str
    needed_by: str


class Trimmed(Part, frozen=True, kw_only=True):
    """Device code taken out of a library: ``bytes`` is what it took there."""

    file: str
    archs: tuple[str, ...] = ()
    bytes: int = 0
    kept_whole: str | None = None


class PartSize(Part, frozen=True, kw_only=True):
    """A file of the wheel and its size."""

    file: str
    bytes: int


class BundleReport(Document, frozen=True, kw_only=True):
    """What ``bundle`` brought along, left to the machine, and could not find."""

    wheel: str
    system: Literal["linux", "windows"]
    out: str | None = None
    sha256: str | None = None
    bytes_before: int
    bytes_after: int | None = None
    brought: tuple[Brought, ...] = ()
    left: tuple[Left, ...] = ()
    missing: tuple[Left, ...] = ()
    trimmed: tuple[Trimmed, ...] = ()
    patched: tuple[str, ...] = ()
    biggest: tuple[PartSize, ...] = ()
    notes: tuple[str, ...] = ()
