"""From what the user asked for to what the engine needs: plan, tree, interpreters, options.

The tree is described here only where no ``source.json`` of the source stage lies in it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rekindle.build.extension import find_extension
from rekindle.build.foreign import check_names
from rekindle.build.options import LAUNCHERS, BuildOptions, memory_budget, most_jobs
from rekindle.errors import BadInput
from rekindle.host.workspace import Workspace, default_workspace
from rekindle.model.document import load
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree

TREE_FILE = "source.json"


@dataclass(frozen=True, kw_only=True)
class BuildRequest:
    """What can be asked of a build; ``plan`` and ``source`` are files, or what was read from them."""

    plan: Plan | Path | None = None
    source: SourceTree | Path | None = None
    project: str | None = None
    pythons: tuple[str, ...] = ()
    workspace: Path | None = None
    target: str | None = None
    memory: str | None = None
    jobs: int | None = None
    launcher: str | None = None
    cmake: str | None = None
    clean: bool = False
    settings: tuple[tuple[str, str], ...] = ()
    against: str | None = None
    as_is: bool = False


@dataclass(frozen=True, kw_only=True)
class Order:
    """A request made definite."""

    plan: Plan
    tree: SourceTree
    workspace: Workspace
    pythons: tuple[str, ...]
    options: BuildOptions


def make_order(request: BuildRequest) -> Order:
    workspace = Workspace(request.workspace.absolute()) if request.workspace else default_workspace()
    plan = request.plan if isinstance(request.plan, Plan) else read_plan(request.plan or workspace.plan)
    check_names(plan)
    tree = find_tree(request, workspace, plan)
    if request.launcher and request.launcher not in LAUNCHERS:
        raise BadInput(f"{request.launcher!r} is no launcher I know", remedy=f"one of {', '.join(LAUNCHERS)}")
    options = BuildOptions(
        jobs=most_jobs(request.jobs, request.settings),
        memory_bytes=memory_budget(request.memory) if request.memory else None,
        launcher=request.launcher,
        clean=request.clean,
        target=request.target,
        cmake=request.cmake,
        settings=request.settings,
        against=request.against,
        as_is=request.as_is,
    )
    # Commands run in the tree: a path from here would lead elsewhere there. Links stay, they make an environment.
    given = tuple(str(Path(one).absolute()) if os.sep in one else one for one in request.pythons)
    pythons = given or ((plan.python,) if plan.python else (sys.executable,))
    return Order(plan=plan, tree=tree, workspace=workspace, pythons=pythons, options=options)


def read_plan(path: Path) -> Plan:
    if not path.is_file():
        raise BadInput(
            f"there is no plan at {path}",
            remedy="'rekindle plan --build --json > plan.json', then --plan plan.json",
        )
    return load(path, Plan)


def find_tree(request: BuildRequest, workspace: Workspace, plan: Plan) -> SourceTree:
    if isinstance(request.source, SourceTree):
        return request.source
    root = (request.source or _fetched(workspace.source, plan)).absolute()
    if not root.is_dir():
        raise BadInput(f"there is no source tree at {root}", remedy="'rekindle source fetch', or give --source DIR")
    for place in (root / TREE_FILE, root.with_name(f"{root.name}.json"), workspace.source / TREE_FILE):
        if place.is_file():
            tree = load(place, SourceTree)
            if Path(tree.root).absolute() == root:
                return tree
    return SourceTree(project=request.project or project_of(root), version=version_of(root), root=str(root))


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
    try:
        return (root / "version.txt").read_text(encoding="utf-8").strip()[:80] or "0"
    except OSError:
        extension = find_extension(root)
        return extension.version if extension is not None else "0"
