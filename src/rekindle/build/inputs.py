"""One line for each thing that cannot work, before anything long starts."""

from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

from rekindle.build.frontend import FrontEnd, find_front_end
from rekindle.build.resume import refuse_future
from rekindle.errors import BadInput
from rekindle.host.workspace import Workspace
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree


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
            raise BadInput(f"cannot write to {folder}: {_why_not(folder)}", remedy=remedy)
    refuse_future(root)
    return front


def _why_not(folder: Path) -> str:
    """In the words a failed write would have used."""
    read_only = hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    return os.strerror(errno.EROFS if read_only else errno.EACCES)


def same_release(left: str, right: str) -> bool:
    """Major and minor decide: version.txt of the tag v1.13.1 really says 1.13.0a0."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(left).release[:2] == Version(right).release[:2]
    except InvalidVersion:
        return left == right
