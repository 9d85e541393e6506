"""A proof that travels: what ran where, in a form anybody can post; and what became of many such records.

A record holds what somebody else needs to weigh it and nothing that names a person or a machine."""

import re
from typing import Annotated, Literal

from msgspec import Meta

from rekindle.model.document import Document, Name, Part, ShortLine, Tag, VersionText
from rekindle.model.machine import System
from rekindle.model.verify import Level, Verdict, VerifyStatus

Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Day = Annotated[str, Meta(pattern=r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")]
CheckName = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9._ -]*\Z", max_length=100)]
_ARCH = re.compile(r"\b(sm_\d+[a-z]?|gfx[0-9a-f]{3,5}|xe[\w-]*)\b")


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


# counts: a believed key signed it and nothing speaks against it. hearsay: the same without such a signature.
# doubtful: it contradicts itself or what is known of the wheel. unreadable: no record.
Standing = Literal["counts", "hearsay", "doubtful", "unreadable"]


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
