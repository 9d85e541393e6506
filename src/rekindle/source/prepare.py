"""Chooses the patches a tree needs for a build, from our own and from the user's folder."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.git import Git
from rekindle.source import journal
from rekindle.source.patches import Choice, Context, Patch, choose, load_patches
from rekindle.source.tree import exact_version, recognise


def tree_version(root: Path) -> tuple[str, str]:
    """Project and exact release: what fetch noted, else the git tag, else version.txt."""
    project, version = recognise(root)
    git = Git(root)
    noted = journal.read_record(root).version
    return project, noted or exact_version(version, git.tag_at_head() if git.present else None)


def check_wanted(root: Path, version: str, wanted: str | None) -> None:
    """A tree of another release than the plan's is the wrong tree. version.txt is sure only to the minor."""
    if wanted and version.split(".")[:2] != wanted.split("+")[0].split(".")[:2]:
        raise BadInput(
            f"{root} is release {version}, and {wanted} is wanted; nothing was changed",
            remedy="give the tree of that release, or get it with 'rekindle source fetch'",
        )


def choose_for(
    root: Path, project: str, context: Context, *, only: Sequence[str] = (), folder: Path | None = None
) -> tuple[Choice, ...]:
    """Every patch with its verdict; ``only`` names those to take, whatever their conditions say."""
    patches = _patches(project, folder)
    choices = choose(patches, context)
    if not only:
        return choices
    known = {patch.id for patch in patches}
    for name in only:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise BadInput(
                f"there is no patch {name!r} for {project}",
                remedy=f"did you mean {near[0]}?" if near else "rekindle source status --all lists them",
            )
    return tuple(
        Choice(choice.patch, "needed", "named")
        if choice.patch.id in only
        else Choice(choice.patch, "not-needed", "not named")
        for choice in choices
    )


def _patches(project: str, folder: Path | None) -> tuple[Patch, ...]:
    if folder is None:
        return load_patches(project)
    if not folder.is_dir():
        raise BadInput(f"{folder} is not a directory of patches", remedy="give it with --patches DIR")
    own = load_patches(project, folder)
    if not own:
        raise BadInput(f"{folder} holds no *.patch file")
    taken = {patch.id for patch in own}
    return (*(patch for patch in load_patches(project) if patch.id not in taken), *own)
