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


class Wish(Part, frozen=True, kw_only=True):
    """What the user wants kept. None means: no matter.

    ``torch`` is a version (``2.1``: any 2.1), a condition (``>=2.1,<2.4``) or a flavour (``2.8.0+cu128``). The
    toolchain values are what was asked for by hand; what a machine merely has is in its :class:`Machine`.
    """

    torch: str | None = None
    variant: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    cudnn: str | None = None
    compiler: str | None = None
    python: str | None = None
    build: bool = False


class Change(Part, frozen=True, kw_only=True, rename={"from_": "from"}):
    """What the plan does differently from the wish. (JSON says "from"; Python cannot.)"""

    what: str
    from_: str | None = None
    to: str | None = None
    why: str


class Refusal(Part, frozen=True, kw_only=True):
    """A "no" as a value: what was refused, why, and what would mend it.

    ``change`` is the change of machine or wish under which the candidate would do; without one it is out.
    ``certain`` is False for "cannot tell".
    """

    code: str
    what: str
    reason: str
    remedy: str | None = None
    source: str | None = None
    rule: str | None = None
    change: Change | None = None
    certain: bool = True


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
    arch_list: tuple[str, ...] = ()


class Alternative(Part, frozen=True, kw_only=True):
    answer: Answer
    torch: str | None = None
    variant: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    python: str | None = None
    compiler: str | None = None
    driver: str | None = None
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


class Considered(Part, frozen=True, kw_only=True):
    """One way that was judged, and every "no" that was found. ``feasible`` ones were merely not the best."""

    name: str
    answer: Answer
    feasible: bool
    refusals: tuple[Refusal, ...] = ()


class WhyNot(Document, frozen=True, kw_only=True):
    """``plan --why-not torch=2.15``: what was judged about that value."""

    asked: str
    possible: bool
    instead: str | None = None
    considered: tuple[Considered, ...] = ()
