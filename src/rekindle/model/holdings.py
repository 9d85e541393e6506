"""What Rekindle keeps on this machine, and what removing some of it did."""

from typing import Literal

from rekindle.model.document import Document, Part

HoldingKind = Literal["workspace", "source", "build", "environment", "wheels", "cache", "logs", "reports", "wheelhouse"]


class Holding(Part, frozen=True, kw_only=True):
    """One thing we keep. ``workspace`` is the one it lies in; a workspace itself counts what its parts do not.
    ``age_seconds`` counts from the last change near its top; ``note`` is what to know before it goes."""

    kind: HoldingKind
    name: str
    path: str
    bytes: int
    age_seconds: float
    workspace: str | None = None
    note: str | None = None


class Holdings(Document, frozen=True, kw_only=True):
    """Everything of ours that was found; ``places`` are where we looked."""

    items: tuple[Holding, ...] = ()
    places: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """The room all of it takes."""
        return sum(item.bytes for item in self.items)


class Kept(Part, frozen=True, kw_only=True):
    """What was not removed, and why."""

    path: str
    why: str


class Cleaning(Document, frozen=True, kw_only=True):
    """``removed`` went (or would, in a dry run); ``kept`` was meant and stayed."""

    removed: tuple[Holding, ...] = ()
    kept: tuple[Kept, ...] = ()
    dry_run: bool = False

    @property
    def freed_bytes(self) -> int:
        """The room that is (or would be) free again."""
        return sum(item.bytes for item in self.removed)
