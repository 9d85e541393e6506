"""The result of verification: one row per check, two results side by side, and a proof that travels: what ran where, in
a form anybody can post (nothing in it names a person or a machine), and what became of many such records."""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from rekindle.model.diagnosis import Diagnosis
from rekindle.model.document import Document, Name, Part, ShortLine, Tag, VersionText
from rekindle.model.machine import System
from rekindle.model.wheel import OperatorTrial

VerifyStatus = Literal["passed", "failed", "skipped"]
Level = Literal["smoke", "full"]
Verdict = Literal["proven", "not-proven", "failed"]
# absent: by release or plan, so nothing is owed; untried: something stood in the way; foretold: it was tried and
# failed, as a grafted wheel says of itself that it must.
SkipKind = Literal["absent", "untried", "foretold"]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Day = Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
CheckName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._ -]*\Z", max_length=100)]
_ARCH = re.compile(r"\b(sm_\d+[a-z]?|gfx[0-9a-f]{3,5}|xe[\w-]*)\b")
# counts: a believed key signed it and nothing speaks against it. hearsay: the same without such a signature.
# doubtful: it contradicts itself or what is known of the wheel. unreadable: no record.
Standing = Literal["counts", "hearsay", "doubtful", "unreadable"]


class VerifyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What ``verify`` can be told; everything has a default.

    wheel         try this wheel in a fresh environment; without it the package that ``python`` has
    python        an interpreter, or for a wheel also a release (``3.12``)
    package       what is imported (default: torch)
    events        what the checks wrote on a machine without Rekindle, instead of running them
    cpu           try the wheel on this emulated CPU
    env           set in the target
    level         smoke takes seconds, full minutes
    only          these checks alone (stars allowed)
    plan          the file of a plan: version and settings must be as planned
    gpu           False claims nothing about a GPU; None asks for a kernel on one where the package was built for one
    companions    those of an installed torch: each is imported, and one operation held against its reference
    dependencies  install what the wheel asks for, looked for in ``find_links`` too
    sandbox       auto tries a wheel that was not built here without network and home, where bubblewrap can do that
    save, junit   where the report is written"""

    wheel: Path | None = None
    python: str | None = None
    package: str | None = None
    events: Path | None = None
    cpu: str | None = None
    env: dict[str, str] = {}
    level: Level = "smoke"
    only: tuple[str, ...] = ()
    plan: Path | None = None
    gpu: bool | None = None
    companions: tuple[str, ...] = ()
    dependencies: bool = True
    find_links: tuple[str, ...] = ()
    sandbox: Literal["auto", "yes", "no"] = "auto"
    save: Path | None = None
    junit: Path | None = None


class Crash(Part, frozen=True, kw_only=True):
    """How a check's process died, as far as it could be told."""

    signal: str
    instruction: str | None = None
    isa: str | None = None
    library: str | None = None
    offset: int | None = None
    function: str | None = None
    unit: str | None = None


class ForetoldFailure(Part, frozen=True, kw_only=True):
    """A check (a star stands for any GPU) that a grafted wheel says must fail on cards of one architecture, and why."""

    id: str
    arch: str
    why: str


class VerifyCheck(Part, frozen=True, kw_only=True):
    """One check and how it ended. ``cpu_seconds`` are its own process's: comparable also on a busy machine.
    ``foretold``: why a grafted wheel says that this cannot work; on a check that passed it was wrong. ``worst`` is the
    largest error found, as a share of what the check's tolerance allows."""

    id: str
    status: VerifyStatus
    detail: str = ""
    skip: SkipKind | None = None  # for skipped checks only
    seconds: float = 0.0
    cpu_seconds: float | None = None
    remedy: str | None = None
    crash: Crash | None = None
    foretold: str | None = None
    worst: float | None = None


class Missing(Part, frozen=True, kw_only=True):
    """A check that the level requires and that did not run to a good end."""

    id: str
    why: str


class SinceProof(Part, frozen=True, kw_only=True):
    """The last proof that held on this machine: what it was about, what got worse since, what is different."""

    subject: str
    wheel_sha256: str | None = None
    worse: tuple[str, ...] = ()
    changed: dict[str, str] = {}


class VerifyReport(Document, frozen=True, kw_only=True):
    """``verdict`` is the answer; a report without one (from an older version) proves nothing. It is about a wheel by
    its digest, and the state of the environment it was installed into; ``claims`` are the parts it speaks of (cpu,
    gpu), ``next`` is what to do, best first. ``since``: what changed since an earlier proof where this is none.
    ``operators`` are those this CPU may crash in, each tried in a process of its own (``crashed`` of them died) and no
    part of the verdict; ``diagnosis`` is what the failed checks' messages mean."""

    verdict: Verdict = "not-proven"
    missing: tuple[Missing, ...] = ()
    claims: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    checks: tuple[VerifyCheck, ...] = ()
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    environment: dict[str, str] = {}
    subject: str = ""
    wheel_sha256: str | None = None
    environment_digest: str | None = None
    level: Level = "smoke"
    seconds: float = 0.0
    since: SinceProof | None = None
    operators: tuple[OperatorTrial, ...] = ()
    crashed: int = 0
    diagnosis: Diagnosis = Diagnosis()

    @property
    def good(self) -> bool:
        """Every check that the level requires ran and passed, and nothing was refuted."""
        return self.verdict == "proven"


class VerifyChange(Part, frozen=True, kw_only=True):
    """A check that ended differently; None where a report does not have it."""

    id: str
    before: VerifyStatus | None
    after: VerifyStatus | None
    detail: str = ""


class VerifyComparison(Document, frozen=True, kw_only=True):
    """What changed from one report to another. ``worse``: passed before, and not any more."""

    before: str = ""
    after: str = ""
    worse: tuple[VerifyChange, ...] = ()
    better: tuple[VerifyChange, ...] = ()
    other: tuple[VerifyChange, ...] = ()
    same: int = 0
    environment: dict[str, tuple[str | None, str | None]] = {}


class ProofCard(Part, frozen=True, kw_only=True):
    """A card the checks ran on; ``arch`` as machine.json spells it."""

    name: ShortLine
    arch: Tag


class ProofCheck(Part, frozen=True, kw_only=True):
    """How one check ended; ``why`` only where it failed."""

    id: CheckName
    status: VerifyStatus
    why: ShortLine = ""


class ProofRecord(Document, frozen=True, kw_only=True):
    """``rekindle verify --share``: one run of the checks. ``wheel_sha256`` is the file it is about; ``cards`` is empty
    where none was tried (``claims`` says what was). ``crashes`` are operators that the level does not require and that
    died on this CPU. ``page`` is where the run is described, if anywhere."""

    kind: Literal["proof"] = "proof"
    package: Name
    version: VersionText
    wheel_sha256: Digest
    verdict: Verdict
    level: Level
    claims: tuple[Literal["cpu", "gpu"], ...]
    checks: Annotated[tuple[ProofCheck, ...], Meta(min_length=1, max_length=2000)]
    crashes: Annotated[tuple[ShortLine, ...], Meta(max_length=200)] = ()
    system: System
    arch: Tag
    distro: ShortLine | None = None
    cpu: ShortLine | None = None
    cards: Annotated[tuple[ProofCard, ...], Meta(max_length=64)] = ()
    driver: VersionText | None = None
    cuda: VersionText | None = None
    rocm: VersionText | None = None
    python: VersionText | None = None
    tool: ShortLine = ""
    day: Day | None = None
    page: ShortLine | None = None

    def count(self, status: VerifyStatus) -> int:
        """How many checks ended so."""
        return sum(check.status == status for check in self.checks)

    @property
    def where(self) -> str:
        """The card, or the processor, in words."""
        cards = " and ".join(dict.fromkeys(f"{card.name} ({card.arch})" for card in self.cards))
        return cards or self.cpu or self.arch


class WeighedRecord(Part, frozen=True, kw_only=True):
    """One record and what it is worth. ``outlier``: the others about the same wheel and card say otherwise."""

    place: str
    standing: Standing
    why: str = ""
    signer: str | None = None
    outlier: bool = False
    record: ProofRecord | None = None


class RecordReview(Document, frozen=True, kw_only=True):
    """``verify --records``: every record with its standing; good where none is doubtful or unreadable."""

    place: str
    good: bool
    records: tuple[WeighedRecord, ...] = ()

    def count(self, standing: Standing) -> int:
        """How many stand so."""
        return sum(record.standing == standing for record in self.records)


def card_of(text: str) -> ProofCard | None:
    """``NVIDIA H200, sm_90, 139.8 GiB``, as checks name a card; None where no architecture is told."""
    match = _ARCH.search(text)
    return ProofCard(name=text.split(",")[0].strip()[:300], arch=match[1]) if match else None
