"""A source tree that is ready to build: where it is, what it is, what we changed in it."""

from __future__ import annotations

from typing import Literal

from rekindle.model.document import Document, Part

PatchState = Literal["clean", "already", "conflict", "not-needed"]


class AppliedPatch(Part, frozen=True, kw_only=True):
    id: str
    state: PatchState
    sha256: str | None = None
    files: tuple[str, ...] = ()
    detail: str | None = None


class SourceTree(Document, frozen=True, kw_only=True):
    """``project`` is torch, torchvision, torchaudio or spark."""

    project: str
    version: str
    root: str
    commit: str | None = None
    origin: str | None = None
    patches: tuple[AppliedPatch, ...] = ()
    missing_submodules: tuple[str, ...] = ()
    digest: str | None = None
