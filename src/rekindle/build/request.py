"""From what the user asked for to what the engine needs: plan, tree, interpreters, options; and one line for each
thing that cannot work, before anything long starts.

The tree is described here only where no ``source.json`` of the source stage lies in it.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.build.companion import find_extension
from rekindle.build.foreign import check_names
from rekindle.build.frontend import FrontEnd, find_front_end
from rekindle.build.tree import refuse_future
from rekindle.errors import BadInput
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.model.build_options import BuildOptions, most_jobs
from rekindle.model.document import load
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree

TREE_FILE = "source.json"


@dataclass(frozen=True, kw_only=True)
class BuildOrder:
    """The options made definite. ``editable``: the tree is the user's own work, and editing it goes on with the build
    that was begun."""

    plan: Plan
    tree: SourceTree
    workspace: Workspace
    pythons: tuple[str, ...]
    options: BuildOptions
    editable: bool = False


def make_order(options: BuildOptions) -> BuildOrder:
    """Read what the options name, find what they leave open, and refuse what no build understands."""
    workspace = workspace_at(options.workspace)
    plan = options.plan if isinstance(options.plan, Plan) else read_plan(options.plan or workspace.plan)
    check_names(plan)
    tree = find_tree(options, workspace, plan)
    options.check()
    # Commands run in the tree: a path from here would lead elsewhere there. Links stay, they make an environment.
    given = tuple(str(Path(python).absolute()) if os.sep in python else python for python in options.pythons)
    pythons = given or ((plan.python,) if plan.python else (sys.executable,))
    definite = msgspec.structs.replace(options, jobs=most_jobs(options.jobs, options.settings))
    return BuildOrder(plan=plan, tree=tree, workspace=workspace, pythons=pythons, options=definite)


def read_plan(path: Path) -> Plan:
    """The plan in a file."""
    if not path.is_file():
        raise BadInput(
            f"there is no plan at {path}",
            remedy="'rekindle plan --build --json > plan.json', then --plan plan.json",
        )
    return load(path, Plan)


def find_tree(options: BuildOptions, workspace: Workspace, plan: Plan) -> SourceTree:
    """The tree that is meant: the one given, or the workspace's for this plan."""
    if isinstance(options.source, SourceTree):
        return options.source
    root = (options.source or _fetched(workspace.source, plan)).absolute()
    if not root.is_dir():
        raise BadInput(f"there is no source tree at {root}", remedy="'rekindle source fetch', or give --source DIR")
    for place in (root / TREE_FILE, root.with_name(f"{root.name}.json"), workspace.source / TREE_FILE):
        if place.is_file():
            tree = load(place, SourceTree)
            if Path(tree.root).absolute() == root:
                return tree
    return SourceTree(project=options.project or project_of(root), version=version_of(root), root=str(root))


def _fetched(sources: Path, plan: Plan) -> Path:
    """The tree of the plan's project in the workspace: as ``source fetch`` and ``up`` name it, or the only one."""
    release = (plan.torch or "").split("+")[0]
    named = [sources / plan.project, sources / f"{plan.project}-{release}"]
    found = [path for path in named if path.is_dir()] or sorted(
        path for path in sources.glob(f"{plan.project}-[0-9]*") if path.is_dir()
    )
    if len(found) > 1 and found[0] not in named:
        raise BadInput(
            f"{sources} holds {', '.join(path.name for path in found)}, none of them torch {release}",
            remedy="name one with --source, or 'rekindle source fetch'",
        )
    return found[0] if found else named[-1 if release else 0]


def project_of(root: Path) -> str:
    """Whose sources a folder holds: torch, a companion, spark, or an extension by its own name."""
    for project in ("torchvision", "torchaudio", "torch", "spark"):
        # torchaudio moved its package into src/ with 2.1.
        if any((root / folder / project / "__init__.py").is_file() for folder in (".", "src")):
            return project
    if (extension := find_extension(root)) is not None:
        return extension.name
    raise BadInput(
        f"{root} is no tree of torch, torchvision, torchaudio or spark, and nothing in it compiles against torch",
        remedy="give the root of a tree whose setup.py uses torch.utils.cpp_extension or whose CMake finds Torch",
    )


def version_of(root: Path) -> str:
    """What the tree says of its version; 0 where it says nothing."""
    try:
        return (root / "version.txt").read_text(encoding="utf-8").strip()[:80] or "0"
    except OSError:
        extension = find_extension(root)
        return extension.version if extension is not None else "0"


def check_inputs(plan: Plan, tree: SourceTree, workspace: Workspace) -> FrontEnd:
    """The front end of a tree that fits the plan and may be written to."""
    if plan.answer != "build" or plan.build is None:
        raise BadInput(
            f"the plan's answer is '{plan.answer}', so there is nothing to build",
            remedy="'rekindle plan --build' insists on a source build",
        )
    if plan.project != tree.project:
        raise BadInput(
            f"the plan is for {plan.project}, but {tree.root} is a tree of {tree.project}",
            remedy="give the plan's own tree with --source DIR, or the tree's own plan with --plan FILE",
        )
    wanted = plan.torch if plan.project == "torch" else None
    if wanted and tree.version and not same_release(wanted, tree.version):
        raise BadInput(
            f"the plan is for torch {wanted}, but {tree.root} is {tree.version}",
            remedy=f"'rekindle source fetch' brings the tree of {wanted}",
        )
    root = Path(tree.root)
    if not root.is_dir():
        raise BadInput(f"there is no source tree at {root}")
    front = find_front_end(root)
    if plan.build is not None and plan.build.env.get("USE_NINJA") == "0":
        front = dataclasses.replace(front, serial=False)
    for folder, remedy in (
        (workspace.wheels, "give a writable place with --workspace DIR"),
        (workspace.logs, "give a writable place with --workspace DIR"),
        # Their setup.py writes its version beside the sources; a folder "build" that is there already proves nothing.
        (root, "copy the tree to a place of your own and give that with --source DIR"),
        (front.build_tree, "copy the tree to a place of your own and give that with --source DIR"),
    ):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"cannot write to {folder}: {error.strerror or error}", remedy=remedy) from error
        if not os.access(folder, os.W_OK):
            # In the words a failed write would have used.
            read_only = hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
            words = os.strerror(errno.EROFS if read_only else errno.EACCES)
            raise BadInput(f"cannot write to {folder}: {words}", remedy=remedy)
    refuse_future(root)
    return front


def same_release(left: str, right: str) -> bool:
    """Major and minor decide: version.txt of the tag v1.13.1 really says 1.13.0a0."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(left).release[:2] == Version(right).release[:2]
    except InvalidVersion:
        return left == right
