"""The source verbs: joins trees and their patches with the plan and this machine's tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.progress import Progress
    from rekindle.model.source import CMakeRewrite, SourceTree
    from rekindle.source.patches import Choice


def source_status(
    root: Path,
    *,
    plan: Path | None = None,
    python: str | None = None,
    patches: Path | None = None,
    given: Mapping[str, str | None] | None = None,
) -> SourceTree:
    """What a tree is, which patches it needs and has, which submodules it lacks."""
    from rekindle.source.patches import status
    from rekindle.source.submodules import with_submodules

    choices = _patch_choices(root, plan, python, patches, given, ())
    return with_submodules(status(root, choices))


def source_patch(
    root: Path,
    *,
    dry_run: bool = False,
    only: Sequence[str] = (),
    plan: Path | None = None,
    python: str | None = None,
    patches: Path | None = None,
    given: Mapping[str, str | None] | None = None,
) -> SourceTree:
    """Apply what the build needs, all or none. Conflicts come back as states; nothing is changed then."""
    from rekindle.source.patches import apply

    choices = _patch_choices(root, plan, python, patches, given, only)
    planned = apply(root, choices, dry_run=True)
    return planned if dry_run or planned.conflicts else apply(root, choices)


def source_unpatch(root: Path) -> SourceTree:
    """Take our patches out, byte for byte."""
    from rekindle.source.patches import unapply

    return unapply(root)


def rewrite_cmake(
    root: Path, *, floor: str = "3.5", dry_run: bool = False, progress: Progress | None = None
) -> CMakeRewrite:
    """Raise what CMake 4 refuses, in any tree."""
    from rekindle.source.rewrite import rewrite_cmake as rewrite

    return rewrite(root, floor=floor, dry_run=dry_run, progress=progress)


def _patch_choices(
    root: Path,
    plan: Path | None,
    python: str | None,
    patches: Path | None,
    given: Mapping[str, str | None] | None,
    only: Sequence[str],
) -> tuple[Choice, ...]:
    from rekindle.host.live import LiveHost
    from rekindle.model.document import load
    from rekindle.model.plan import Plan
    from rekindle.source import context, prepare

    root = root.resolve()
    project, version = prepare.tree_version(root)
    wish = load(plan, Plan) if plan else None
    prepare.check_wanted(root, version, wish.torch if wish and project in ("torch", wish.project) else None)
    facts = context.gather(LiveHost(), root, version, plan=wish, python=python, given=given)
    return prepare.choose_for(root, project, facts, only=only, folder=patches)
