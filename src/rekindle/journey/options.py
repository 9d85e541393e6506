"""What the user may choose about ``up`` and ``demo``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rekindle.model.plan import Wish
from rekindle.model.verify import Level


@dataclass(frozen=True, kw_only=True)
class UpOptions:
    """``gpu`` and ``cpu`` are what a built torch is for, where that is not what this machine has.

    ``python`` is an interpreter that gets torch itself, or a release (``3.12``) for an environment that is made:
    at ``venv``, or in the workspace. ``installer`` is pip or uv; ``find_links`` are folders or pages of wheels looked
    through besides, ``offline`` asks no index at all.

    ``index`` replaces the plan's package index (a mirror, or ``default`` for pip's own). ``source`` is a tree to
    build from instead of fetching one, ``wheel`` a torch that is built already; ``bundle`` puts libraries of this
    machine that a built wheel needs into it; ``target`` builds only that and stops; ``clean`` removes what another plan
    compiled; ``dry_run`` stops after the plan and its card, and writes nothing.
    """

    wish: Wish
    gpu: tuple[str, ...] = ()
    cpu: str | None = None
    python: str | None = None
    venv: Path | None = None
    installer: str | None = None
    find_links: tuple[str, ...] = ()
    offline: bool = False
    index: str | None = None
    torch_only: bool = False
    source: Path | None = None
    wheel: Path | None = None
    level: Level = "smoke"
    memory: str | None = None
    jobs: int | None = None
    launcher: str | None = None
    target: str | None = None
    bundle: bool = True
    clean: bool = False
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """``cmake`` is the one to use instead of the one on PATH; ``use_cuda`` False leaves the CUDA part out;
    ``clean`` forgets what earlier runs left."""

    cmake: str | None = None
    use_cuda: bool = True
    clean: bool = False
