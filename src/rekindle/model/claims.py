"""What a wheel claims against what its bytes hold; signing keys; a wheelhouse against its signed list."""

from typing import Literal

from rekindle.model.document import Document, Part
from rekindle.model.verify import SkipKind, Verdict, VerifyStatus

FileProblem = Literal["removed", "replaced", "unlisted", "page", "metadata"]
ListProblem = Literal["older-list", "expired", "clock", "unsigned", "wrong-key", "other-house"]
ProblemKind = FileProblem | ListProblem


class ClaimCheck(Part, frozen=True, kw_only=True):
    """``claimed`` is what the wheel or its statement says, ``found`` what the bytes hold."""

    id: str
    status: VerifyStatus
    claimed: str | None = None
    found: str | None = None
    detail: str = ""
    skip: SkipKind | None = None


class ClaimsReport(Document, frozen=True, kw_only=True):
    """``verify --claims``. Proven: signed by a trusted key, and everything claimed is found."""

    wheel: str
    sha256: str
    verdict: Verdict
    signed_by: str | None = None
    checks: tuple[ClaimCheck, ...] = ()
    slsa_build_level: int = 0  # 1: provenance exists and is signed by its maker; more needs a hosted builder
    next: tuple[str, ...] = ()


class Rebuilt(Document, frozen=True, kw_only=True):
    """``rebuild``: ``rule`` says what was left out of a comparison that found the two the same."""

    statement: str
    wheel: str
    sha256: str
    claimed: str
    verdict: Literal["identical", "normalised", "different"]
    rule: str | None = None
    difference: str | None = None


class SigningKey(Part, frozen=True, kw_only=True):
    """A key by its name and id; the secret part never leaves its file."""

    name: str
    id: str
    public: str
    private: bool = False


class SigningKeys(Document, frozen=True, kw_only=True):
    """``key``: what there is, or what was made."""

    folder: str
    keys: tuple[SigningKey, ...] = ()
    note: str = ""
    signed: str | None = None


class ListedWheel(Part, frozen=True, kw_only=True):
    """A wheel as the list names it."""

    file: str
    project: str
    version: str
    sha256: str
    bytes: int
    yanked: bool = False
    requires_python: str | None = None


class WheelList(Document, frozen=True, kw_only=True):
    """The payload of a wheelhouse's signed list. ``house`` is its own number, the same in all its lists; ``serial``
    grows with each; times are UTC, ISO 8601; ``files`` are digests of every other public file, by its place."""

    kind: Literal["rekindle-wheel-list"] = "rekindle-wheel-list"
    name: str
    house: str = ""
    serial: int
    made: str
    expires: str
    wheels: tuple[ListedWheel, ...] = ()
    files: dict[str, str] = {}


class IndexProblem(Part, frozen=True, kw_only=True):
    """Something on an index that is not as its list says."""

    kind: ProblemKind
    text: str
    file: str | None = None


class IndexCheck(Document, frozen=True, kw_only=True):
    """``index check``: the wheelhouse against its signed, dated list."""

    root: str
    good: bool
    signed_by: str | None = None
    serial: int | None = None
    made: str | None = None
    expires: str | None = None
    wheels: int = 0
    problems: tuple[IndexProblem, ...] = ()
    next: tuple[str, ...] = ()
