"""A plan: which torch for a machine, how to get it, and why. The word for "no" is ``Refusal``."""

from __future__ import annotations

from typing import Literal

from rekindle.model.document import Document, Part

Answer = Literal["install", "build", "none"]


class Reason(Part, frozen=True, kw_only=True):
    """One sourced reason; ``code`` is stable, ``text`` is for people."""

    code: str
    text: str
    source: str | None = None


class Refusal(Part, frozen=True, kw_only=True):
    """A "no" as a value: what was refused, why, and what would mend it."""

    code: str
    what: str
    reason: str
    remedy: str | None = None
    source: str | None = None


class Change(Part, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What the plan does differently from the wish. (JSON says "from"; Python cannot.)"""

    what: str
    from_: str | None = None
    to: str | None = None
    why: str


class BuildRecipe(Part, frozen=True, kw_only=True):
    """Everything a source build needs, complete: nothing is left to folklore."""

    source: str
    env: dict[str, str] = {}
    cmake: dict[str, str] = {}
    patches: tuple[str, ...] = ()
    compiler: str | None = None
    toolchain: dict[str, str] = {}
    pins: dict[str, str] = {}
    asserts: dict[str, str] = {}
    losses: tuple[str, ...] = ()
    disk_gib: float | None = None
    memory_gib: float | None = None
    minutes: tuple[int, int] | None = None


class Alternative(Part, frozen=True, kw_only=True):
    answer: Answer
    torch: str | None = None
    variant: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    why: str


class Plan(Document, frozen=True, kw_only=True):
    answer: Answer
    as_asked: bool = False
    torch: str | None = None
    variant: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    python: str | None = None
    numpy: str | None = None
    arch_list: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    because: tuple[Reason, ...] = ()
    changes: tuple[Change, ...] = ()
    build: BuildRecipe | None = None
    alternatives: tuple[Alternative, ...] = ()
    warnings: tuple[Reason, ...] = ()
    project: str = "torch"
