"""A wheelhouse's documents. :class:`StoredWheel` is everything we keep about one wheel, its reports included;
:class:`WheelRow` the short form for catalogue, search and page: computed from it, never edited."""

import msgspec

from rekindle.model.document import Document, Part
from rekindle.model.graft import GraftRow
from rekindle.model.plan import Reason
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import RowLibrary, Verdict, WheelReport


class Origin(Part, frozen=True, kw_only=True):
    """How the wheel came to be, from the ``build.json`` beside it."""

    torch: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    plan_digest: str | None = None
    source_commit: str | None = None
    patches: tuple[str, ...] = ()


class SharedRecord(Part, frozen=True, kw_only=True):
    """What somebody shared about a wheel: one line of JSON as it was given, and the believed key that signed it."""

    line: str
    signer: str | None = None


class StoredWheel(Document, frozen=True, kw_only=True):
    """One stored wheel with its evidence. ``yanked`` is the reason ("" for none given), None if it is not."""

    file: str
    project: str
    version: str
    tags: tuple[str, ...]
    sha256: str
    bytes: int
    metadata_sha256: str
    requires_python: str | None = None
    added: str
    yanked: str | None = None
    report: WheelReport | None = None
    proofs: tuple[VerifyReport, ...] = ()
    origin: Origin | None = None
    provenance_sha256: str | None = None  # of ``<file>.provenance`` (PEP 740), where a signed statement came with it
    records: tuple[SharedRecord, ...] = ()


class RowProof(Part, frozen=True, kw_only=True):
    """A verification that lies beside a wheel: how it ended and where it ran."""

    passed: int
    failed: int
    skipped: int
    environment: dict[str, str] = {}

    @property
    def good(self) -> bool:
        """Did it prove anything?"""
        return self.passed > 0 and not self.failed


class OfferedWheel(Part, frozen=True, kw_only=True):
    """A wheel that the index offers."""

    file: str
    url: str
    project: str
    version: str
    bytes: int
    sha256: str
    metadata_sha256: str
    requires_python: str | None = None
    added: str
    yanked: str | None = None


class WheelRow(OfferedWheel, frozen=True, kw_only=True):
    """One wheel in the catalogue. ``sass``/``ptx``/``gfx`` are the project's own kernels."""

    pythons: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    machines: tuple[str, ...] = ()
    inspected: bool = False
    sass: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    gfx: tuple[str, ...] = ()
    libraries: tuple[RowLibrary, ...] = ()
    cpu: str | None = None
    glibc: str | None = None
    external: tuple[str, ...] = ()
    cuda: str | None = None
    rocm: str | None = None
    proofs: tuple[RowProof, ...] = ()
    provenance: bool = False
    hearsay: tuple[RowProof, ...] = ()  # records that no key believed by the house signed: shown, and no proof

    @property
    def proven(self) -> bool:
        """Did some proof hold?"""
        return any(proof.good for proof in self.proofs)


class VariantRow(OfferedWheel, frozen=True, kw_only=True):
    """A variant wheel: ``plain`` is the wheel it was made from, ``proven`` whether that one's proof holds for it."""

    label: str
    properties: dict[str, dict[str, list[str]]]
    plain: str
    provenance: str | None = None
    proven: bool = False
    note: str = ""


class GraftList(Document, frozen=True, kw_only=True):
    """``grafts/index.json`` of a wheelhouse."""

    grafts: tuple[GraftRow, ...] = ()


class WheelCatalogue(Document, frozen=True, kw_only=True):
    """``catalogue.json`` of a built wheelhouse."""

    generated: str
    wheels: tuple[WheelRow, ...] = ()


class AddedWheel(Part, frozen=True, kw_only=True):
    """One wheel given to ``index add``."""

    file: str
    state: str
    sha256: str
    bytes: int
    warnings: tuple[str, ...] = ()


class Added(Document, frozen=True, kw_only=True):
    """``index add``: what each wheel became ("added", "already", "updated")."""

    root: str
    wheels: tuple[AddedWheel, ...]
    next: str


class Yanked(Document, frozen=True, kw_only=True):
    """``index yank``: the reason, or None where the wheel is offered again."""

    root: str
    file: str
    yanked: str | None


class Synced(Document, frozen=True, kw_only=True):
    """``index sync``: how many files went over, how many were there, which pages of gone things were removed."""

    root: str
    target: str
    sent: int
    kept: int
    bytes: int
    removed: tuple[str, ...] = ()


class SiteBuilt(Document, frozen=True, kw_only=True):
    """``index build``: ``pages_written`` counts projects whose pages changed, ``pages_kept`` the others."""

    root: str
    simple: str
    catalogue: str
    wheels: int
    projects: int
    pages_written: int
    pages_kept: int
    grafts: int = 0
    page: str | None = None
    variants: tuple[VariantRow, ...] = ()
    left_out: tuple[str, ...] = ()


class Served(Document, frozen=True, kw_only=True):
    """``index serve``: told when the server ends."""

    root: str
    url: str
    requests: int


class SearchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``index search`` can be told, as the user words it; what is None is not asked for.

    gpus             product names, ``sm_35`` or ``gfx1031``
    system, machine  the operating system and the CPU's architecture
    versions         a version or a specifier of ``project``"""

    gpus: tuple[str, ...] = ()
    system: str | None = None
    machine: str | None = None
    python: str | None = None
    glibc: str | None = None
    project: str | None = None
    versions: str | None = None


class WheelMatch(Part, frozen=True, kw_only=True):
    """A wheel that answers a search, with why we think it runs (or that we cannot tell)."""

    wheel: WheelRow
    verdict: Verdict
    command: str


class Found(Document, frozen=True, kw_only=True):
    """``index search``: what runs first, then what cannot be told; ``refused`` says why others do not."""

    root: str
    wanted: dict[str, str] = {}
    matches: tuple[WheelMatch, ...] = ()
    refused: tuple[Reason, ...] = ()
    looked_at: int = 0


class PageWritten(Document, frozen=True, kw_only=True):
    """``index page``: the file, and how much it knows."""

    path: str
    bytes: int
    gpus: int
    answers: int
    wheels: int
