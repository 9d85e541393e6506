"""The result of a build, as ``build.json`` beside the wheel tells it."""

from __future__ import annotations

from rekindle.model.document import Document, Part
from rekindle.model.plan import Plan
from rekindle.model.source import AppliedPatch


class Phase(Part, frozen=True, kw_only=True):
    name: str
    seconds: float


class BuildResult(Document, frozen=True, kw_only=True):
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
