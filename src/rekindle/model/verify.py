"""The result of verification: one row per check."""

from __future__ import annotations

from typing import Literal

from rekindle.model.document import Document, Part

VerifyStatus = Literal["passed", "failed", "skipped"]


class VerifyCheck(Part, frozen=True, kw_only=True):
    id: str
    status: VerifyStatus
    detail: str = ""
    seconds: float = 0.0
    remedy: str | None = None


class VerifyReport(Document, frozen=True, kw_only=True):
    checks: tuple[VerifyCheck, ...] = ()
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    environment: dict[str, str] = {}
