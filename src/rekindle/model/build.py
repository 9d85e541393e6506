"""The result of a build, as ``build.json`` beside the wheel tells it; the account of one that failed; and what
``bundle`` did or would do: the libraries brought along, what was left out and why, sizes before and after."""

from typing import Literal

from rekindle.model.diagnosis import Diagnosis
from rekindle.model.document import Document, Part
from rekindle.model.farm import FarmUse
from rekindle.model.plan import Plan
from rekindle.model.source import AppliedPatch


class Phase(Part, frozen=True, kw_only=True):
    """A part of the build and how long it took."""

    name: str
    seconds: float


class Fact(Part, frozen=True, kw_only=True):
    """One thing the plan wanted of the configuration, and what the configuration says. ``ok`` None: cannot tell."""

    name: str
    wanted: str
    found: str | None = None
    ok: bool | None = None
    where: str | None = None


class ForeignPlan(Document, frozen=True, kw_only=True):
    """What a document that was not made here would do; ``unknown`` are places and programs the doctor did not find,
    ``signed`` says whose signature it bears (empty where it is of a kind that bears none)."""

    title: str
    signed: str = ""
    runs: tuple[str, ...] = ()
    fetches: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


class BuildResult(Document, frozen=True, kw_only=True):
    """``wheel`` is empty where only a target was built."""

    project: str
    wheel: str
    wheel_sha256: str
    plan: Plan
    plan_digest: str
    source_commit: str | None = None
    source_digest: str | None = None
    patches: tuple[AppliedPatch, ...] = ()
    toolchain: dict[str, str] = {}
    environment: dict[str, str] = {}
    phases: tuple[Phase, ...] = ()
    peak_memory_bytes: int | None = None
    report: str | None = None
    python: str | None = None
    target: str | None = None
    resumed: bool = False
    facts: tuple[Fact, ...] = ()
    log: str | None = None
    steps: int | None = None
    memory_budget_bytes: int | None = None
    paused: int = 0
    retried: tuple[str, ...] = ()
    launcher: dict[str, str] = {}
    farm: FarmUse | None = None
    sbom: str | None = None
    provenance: str | None = None
    notes: tuple[str, ...] = ()


class BuildFailure(Document, frozen=True, kw_only=True):
    """A build that ended with no: the first real error, the command that made it, and what it means."""

    project: str
    phase: str
    message: str
    command: str | None = None
    error: tuple[str, ...] = ()
    first_line: int | None = None
    log: str | None = None
    failed_log: str | None = None
    facts: tuple[Fact, ...] = ()
    diagnosis: Diagnosis = Diagnosis()
    bug_report: str | None = None


class BuildResults(Document, frozen=True, kw_only=True):
    """One result per target Python, in the order asked for."""

    results: tuple[BuildResult, ...]


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


def spoken_targets(target: str) -> str:
    """One by its name; of several, which are long paths as a rule, how many."""
    names = [name for name in target.split(",") if name.strip()]
    return target if len(names) < 2 else f"{len(names)} targets"
