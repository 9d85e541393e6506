"""The result of verification: one row per check, and two results side by side."""

from pathlib import Path
from typing import Literal

import msgspec

from rekindle.model.diagnosis import Diagnosis
from rekindle.model.document import Document, Part
from rekindle.model.wheel import OperatorTrial

VerifyStatus = Literal["passed", "failed", "skipped"]
Level = Literal["smoke", "full"]
Verdict = Literal["proven", "not-proven", "failed"]
# absent: by release or plan, so nothing is owed; untried: something stood in the way; foretold: it was tried and
# failed, as a grafted wheel says of itself that it must.
SkipKind = Literal["absent", "untried", "foretold"]


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
    beside        companions of an installed torch: each is imported, and one operation held against its reference
    dependencies  install what the wheel asks for, looked for in ``find_links`` too
    sandbox       auto tries a wheel that was not built here without network and home, where bubblewrap can do that
    save, junit   where the report is written
    """

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
    beside: tuple[str, ...] = ()
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
    """One check and how it ended."""

    id: str
    status: VerifyStatus
    detail: str = ""
    # Set for skipped checks only.
    skip: SkipKind | None = None
    seconds: float = 0.0
    # What the check's own process computed: comparable also on a busy machine.
    cpu_seconds: float | None = None
    remedy: str | None = None
    crash: Crash | None = None
    # Why a grafted wheel says of itself that this cannot work; on a check that passed it was wrong.
    foretold: str | None = None
    # The largest error found, as a share of what the check's tolerance allows.
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
    """``verdict`` is the answer; a report without one (from an older version) proves nothing."""

    verdict: Verdict = "not-proven"
    missing: tuple[Missing, ...] = ()
    # Which parts the verdict speaks about: cpu, gpu.
    claims: tuple[str, ...] = ()
    # What to do next, best first: commands and short advice.
    next: tuple[str, ...] = ()
    checks: tuple[VerifyCheck, ...] = ()
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    environment: dict[str, str] = {}
    subject: str = ""
    # What the proof is about: the wheel's own digest, and the state of the environment it was installed into.
    wheel_sha256: str | None = None
    environment_digest: str | None = None
    level: Level = "smoke"
    seconds: float = 0.0
    # Where this is no proof and there was one before: what changed since.
    since: SinceProof | None = None
    # Operators that this CPU may crash in, each tried in a process of its own; they are no part of the verdict, and
    # ``crashed`` counts those that died.
    operators: tuple[OperatorTrial, ...] = ()
    crashed: int = 0
    # What the failed checks' messages mean, where that is known.
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
