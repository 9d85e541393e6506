"""The source verbs: joins trees and their patches with the plan and this machine's tools."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.model.document import load
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import FetchOptions, PatchOptions, SourceTree
from rekindle.source.patches import Choice, Context, apply, choose, load_patches, status, unapply
from rekindle.source.tree import check_wanted, tree_version

if TYPE_CHECKING:
    from rekindle.source.fetch import Filling


def source_fetch(
    target: Path | None = None, options: FetchOptions | None = None, *, progress: Progress | None = None, **choices: Any
) -> SourceTree:
    """Get a tree; the options are a :class:`~rekindle.model.source.FetchOptions`, or its fields by name."""
    from rekindle.source.fetch import fetch

    chosen = replace(options or FetchOptions(), **choices)
    project, release, revision = chosen.project, chosen.release, chosen.revision
    planned = load(chosen.plan, Plan) if chosen.plan else None
    if planned and planned.torch:
        torch = planned.torch.split("+")[0]
        release = release or (torch if project == "torch" else _companion_release(project, torch))
    if chosen.match is not None and project != "torch":
        from rekindle.source.origins import pinned_commit

        revision = revision or pinned_commit(chosen.match, project)
        if revision is None:
            release = release or _companion_release(project, tree_version(chosen.match)[1])
    home = workspace_at(chosen.workspace)
    place = chosen.place or (planned.build.origin if planned and planned.build else None)
    order = replace(chosen, release=release, revision=revision, place=place)
    filling = _make_filling(planned, chosen.find_links, chosen.offline)
    where = target or home.source / f"{project}-{release or (revision or 'tree')[:12]}"
    windows = LiveHost().system == "windows"
    return fetch(order, where, cache=home.cache, windows=windows, filling=filling, progress=progress)


def _make_filling(plan: Plan | None, find_links: Sequence[str], offline: bool) -> Filling:
    from rekindle.source.fetch import Filling

    wanted = {"backend": plan.backend, "cuda": plan.cuda} if plan else {}
    return Filling(**wanted, find_links=tuple(find_links), offline=offline)


def find_tree(given: Path | None, workspace: Path | None = None) -> Path:
    """The tree that is meant: the one given, the only one of the workspace, or the current directory.

    >>> find_tree(spark_tree) == spark_tree
    True
    """
    if given is not None or workspace is None:
        return given or Path()
    trees = sorted(mark.parent for mark in Workspace(workspace).source.glob("*/version.txt"))
    if len(trees) == 1:
        return trees[0]
    raise BadInput(
        f"the workspace {workspace} holds {', '.join(path.name for path in trees) or 'no source tree'}",
        remedy="name the tree with --source DIR" if trees else "rekindle source fetch --workspace DIR",
    )


def _companion_release(project: str, torch: str) -> str:
    if version := load_facts().companion_release(project, torch):
        return version
    remedy = "give it with --release or --revision"
    raise BadInput(f"which {project} belongs to torch {torch} is not known", remedy=remedy)


def source_hipify(
    root: Path, *, python: str | None = None, undo: bool = False, progress: Progress | None = None
) -> SourceTree:
    """CUDA sources into HIP with the tree's own tool, as a commit of its own; or back."""
    from rekindle.source import history

    return history.undo_hipify(root) if undo else history.hipify(root, python=python, progress=progress)


def source_status(root: Path, options: PatchOptions | None = None, **choices: Any) -> SourceTree:
    """What a tree is, which patches it needs and has, which submodules it lacks; the options are a
    :class:`~rekindle.model.source.PatchOptions`, or its fields by name.

    >>> source_status(spark_tree).project
    'spark'
    """
    from rekindle.build.frontend import find_front_end
    from rekindle.source.supply import with_parts

    tree = with_parts(status(root, _patch_choices(root, options, choices)))
    with contextlib.suppress(BadInput):
        tree = replace(tree, requires=find_front_end(Path(tree.root)).requires)
    return tree


def source_fill(
    root: Path,
    *,
    plan: Path | None = None,
    find_links: Sequence[str] = (),
    offline: bool = False,
    workspace: Path | None = None,
    progress: Progress | None = None,
) -> SourceTree:
    """Put something in the place of every third party a tree lacks; a tree with its submodules stays as it is."""
    from rekindle.source.fetch import fill_tree

    home = workspace_at(workspace)
    filling = _make_filling(load(plan, Plan) if plan else None, find_links, offline)
    return fill_tree(root, cache=home.cache, filling=filling, progress=progress)


def source_patch(
    root: Path, options: PatchOptions | None = None, *, dry_run: bool = False, **choices: Any
) -> SourceTree:
    """Apply what the build needs, all or none: conflicts come back as states. Options are as for :func:`source_status`.

    >>> planned = source_patch(spark_tree, dry_run=True, given={"cmake": "4.4.0"})
    >>> {patch.id: patch.state for patch in planned.patches}["cmake-4-policies"]
    'clean'
    """
    from rekindle.source.supply import with_parts

    patches = _patch_choices(root, options, choices)
    planned = apply(root, patches, dry_run=True)
    return with_parts(planned if dry_run or planned.conflicts else apply(root, patches))


def source_unpatch(root: Path) -> SourceTree:
    """Take our patches out, byte for byte.

    >>> _ = source_patch(spark_tree, only=["cmake-4-policies"])
    >>> [patch.state for patch in source_unpatch(spark_tree).patches if patch.state == "applied"]
    []
    """
    return unapply(root)


def _patch_choices(root: Path, options: PatchOptions | None, choices: dict[str, Any]) -> tuple[Choice, ...]:
    from rekindle.source import context

    chosen, root = replace(options or PatchOptions(), **choices), root.resolve()
    project, version = tree_version(root)
    planned = load(chosen.plan, Plan) if chosen.plan else None
    check_wanted(root, version, planned.torch if planned and project in ("torch", planned.project) else None)
    facts = context.gather(LiveHost(), root, version, plan=planned, python=chosen.python, given=chosen.given)
    return context.choose_for(root, project, facts, only=chosen.only, folder=chosen.patches)


def choose_spark_patches(cmake: str | None = None) -> tuple[Choice, ...]:
    """Which patches of the miniature this CMake, setuptools and Python need."""
    import importlib.metadata

    from rekindle.spark import unpack as spark
    from rekindle.toolkits.programs import find_cmake

    host = LiveHost()
    facts = {
        "version": spark.tree_version(),
        "cmake": find_cmake(host, cmake).version,
        "setuptools": importlib.metadata.version("setuptools"),
        "python": platform.python_version(),
        "os": host.system,
    }
    return choose(load_patches("spark"), Context(facts))


def patch_spark(root: Path, *, cmake: str | None = None) -> SourceTree:
    """The miniature with the patches that the tools here need, and without those they do not."""
    choices = choose_spark_patches(cmake)
    needed = {choice.patch.id for choice in choices if choice.verdict == "needed"}
    applied = {patch.id for patch in status(root, choices).patches if patch.state == "applied"}
    if applied - needed:
        # Other tools than last time (another CMake): what they do not need is taken out again.
        unapply(root)
    return apply(root, choices)
