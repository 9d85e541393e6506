"""``adopt``: what it can be told, and what became of an application's torch."""

from pathlib import Path
from typing import Literal

import msgspec

from rekindle.model.document import Document, Line, Part
from rekindle.model.journey import Card
from rekindle.model.plan import Plan
from rekindle.model.verify import Level, VerifyReport

AdoptionState = Literal["adopted", "already", "planned", "undone", "not-proven", "no"]


class AdoptOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``adopt`` can be told; everything but the folder has a default.

    folder      the application's folder
    python      its interpreter, where it is not found in the folder
    torch       the release wanted instead of the plan's own
    variant     the same for the flavour (``cu126``)
    wheel       wheels that were built or grafted before: torch's, and those of what was compiled for it
    index, find_links, offline   where packages come from, as in ``up``
    leave_out   extensions that are switched off because they cannot live with this torch
    level       how hard the result is proved
    dry_run     show the card and write nothing
    undo        put the environment back as it was before the first adoption
    workspace   where logs are kept"""

    folder: Path
    python: str | None = None
    torch: str | None = None
    variant: str | None = None
    wheel: tuple[Path, ...] = ()
    index: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False
    leave_out: tuple[str, ...] = ()
    level: Level = "smoke"
    dry_run: bool = False
    undo: bool = False
    workspace: Path | None = None


class AdoptionChange(Part, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One package that goes (``to`` None), comes (``from_`` None) or is replaced, and why."""

    name: Line
    from_: Line | None = None
    to: Line | None = None
    why: Line = ""


class Adoption(Document, frozen=True, kw_only=True):
    """What became of an application's torch: ``adopted`` (swapped and proven), ``already`` (it was), ``planned`` (a dry
    run), ``undone``, ``not-proven`` (swapped, not proven, put back), ``no`` (``verdict`` says why). ``files`` were
    written to keep it so, ``conflicts`` is what others want otherwise, ``env`` is set whenever its Python starts."""

    state: AdoptionState
    verdict: Line
    app: Line | None = None
    version: Line | None = None
    folder: Line | None = None
    python: Line | None = None
    before: Line | None = None
    torch: Line | None = None
    changes: tuple[AdoptionChange, ...] = ()
    conflicts: tuple[Line, ...] = ()
    beware: tuple[Line, ...] = ()
    files: tuple[Line, ...] = ()
    env: dict[str, Line] = {}
    card: Card | None = None
    plan: Plan | None = None
    verification: VerifyReport | None = None
    undo: Line | None = None
    next: tuple[Line, ...] = ()

    @property
    def good(self) -> bool:
        """Is the answer a yes?"""
        return self.state not in ("not-proven", "no")
