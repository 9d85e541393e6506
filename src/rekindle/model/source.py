"""A source tree that is ready to build: where it is, what it is, what we changed in it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from rekindle.model.document import Document, Part
from rekindle.model.supply import TreePart

# clean: would apply (or, after ``patch``, see applied) · applied: by us · already: in the tree, not by us ·
# conflict: fits neither way · not-needed: its conditions do not hold · unknown: a fact it hangs on is missing
PatchState = Literal["clean", "applied", "already", "conflict", "not-needed", "unknown"]


# Projects that are no extension of torch: itself, and the miniature.
_NOT_EXTENSIONS = ("torch", "spark")


def compiles_against_torch(project: str) -> bool:
    """torchvision, torchaudio and every other extension; not torch itself."""
    return project not in _NOT_EXTENSIONS


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``source fetch`` can be told; everything has a default.

    release, revision    a version, or a full commit instead of one
    plan                 the file of a plan: its release, and where its sources come from
    match                a torch tree whose pins, or our table of companions, say which vision or audio
    place                git, tarball, debian, a directory, an archive, or the address of one or of a repository
    sha256               what the archive must be
    mirrors, reference   other addresses (``FROM=TO``), and a checkout on this machine to borrow objects from
    find_links, offline  where headers of the package index are looked for first; ask no index
    workspace            where the tree goes (default: the user's data directory)"""

    project: str = "torch"
    release: str | None = None
    revision: str | None = None
    plan: Path | None = None
    match: Path | None = None
    place: str | None = None
    sha256: str | None = None
    mirrors: tuple[str, ...] = ()
    reference: Path | None = None
    submodules: bool = True
    find_links: tuple[str, ...] = ()
    offline: bool = False
    workspace: Path | None = None


class PatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``source status`` and ``source patch`` can be told; everything has a default.

    plan, python   the file of a plan, and the interpreter that builds: which patches are needed depends on them
    given          what is said of the tools instead of asking them: ``{"cmake": "4.4.0"}``
    patches, only  a folder with patches beside ours; take these alone, whatever their conditions say"""

    plan: Path | None = None
    python: str | None = None
    given: Mapping[str, str | None] | None = None
    patches: Path | None = None
    only: Sequence[str] = ()


class AppliedPatch(Part, frozen=True, kw_only=True):
    """A patch and how it stands to a tree; see :data:`PatchState`."""

    id: str
    state: PatchState
    sha256: str | None = None
    files: tuple[str, ...] = ()
    detail: str | None = None
    title: str | None = None
    source: str | None = None
    instead: str | None = None


class SourceTree(Document, frozen=True, kw_only=True):
    """``project`` is torch, torchvision, torchaudio or spark. ``parts`` is every third party and where it comes from;
    nothing fills ``missing_submodules``. ``requires`` is what the tree wants in the Python that builds it."""

    project: str
    version: str
    root: str
    commit: str | None = None
    origin: str | None = None
    patches: tuple[AppliedPatch, ...] = ()
    missing_submodules: tuple[str, ...] = ()
    parts: tuple[TreePart, ...] = ()
    requires: tuple[str, ...] = ()
    digest: str | None = None
    changed: tuple[str, ...] = ()
    diff: str | None = None
    diff_command: str | None = None
    repaired: str | None = None
    hipified: bool = False
    notes: tuple[str, ...] = ()

    @property
    def patched(self) -> tuple[AppliedPatch, ...]:
        """The patches that are in the tree, by us or others: what bills of materials and reports speak of."""
        return tuple(patch for patch in self.patches if patch.state in ("applied", "already"))

    @property
    def conflicts(self) -> tuple[AppliedPatch, ...]:
        """The patches that fit neither way."""
        return tuple(patch for patch in self.patches if patch.state == "conflict")


class CMakeChange(Part, frozen=True, kw_only=True):
    """One version raised, or (``after`` is None) one that was seen and left, with the reason."""

    file: str
    line: int
    before: str
    after: str | None = None
    why: str | None = None


class CMakeRewrite(Document, frozen=True, kw_only=True):
    """What ``source rewrite-cmake`` did, or would do."""

    root: str
    dry_run: bool
    files_read: int
    changes: tuple[CMakeChange, ...] = ()
    left: tuple[CMakeChange, ...] = ()
    diff: str | None = None


class SavedPatches(Document, frozen=True, kw_only=True):
    """What ``source save-patches`` wrote."""

    root: str
    base: str
    files: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class RecordedFile(Part, frozen=True, kw_only=True):
    """A file we changed: the SHA-256 of its first original (None: we made it) and of what we left (None: removed)."""

    path: str
    original: str | None = None
    left: str | None = None
    mode: int | None = None


class RecordedPatch(Part, frozen=True, kw_only=True):
    """A patch we applied, by the SHA-256 of its text."""

    id: str
    sha256: str
    files: tuple[str, ...] = ()


class TreeRecord(Document, frozen=True, kw_only=True):
    """What we know and did about a tree; kept inside it, in ``.rekindle/tree.json``."""

    project: str | None = None
    version: str | None = None
    commit: str | None = None
    origin: str | None = None
    transaction: str | None = None
    patches: tuple[RecordedPatch, ...] = ()
    files: tuple[RecordedFile, ...] = ()
    hipified: bool = False
    supply: tuple[TreePart, ...] = ()


class JournalEdit(Part, frozen=True, kw_only=True):
    """One file of a change that has begun: its content before and after, by digest."""

    path: str
    before: str | None = None
    after: str | None = None
    mode: int | None = None


class Journal(Document, frozen=True, kw_only=True):
    """A change that has begun: enough to take every file back."""

    id: str
    edits: tuple[JournalEdit, ...] = ()
