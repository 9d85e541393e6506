"""The part of a pack from which a torch can be built years later: tree, patches, build tools, and a script.

Compilers and GPU toolkits are not in it; the README beside it names what the build wants of them.
"""

import shutil
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement

from rekindle.api.source import source_fetch
from rekindle.errors import StageFailed
from rekindle.host.files import write_atomically
from rekindle.interpreters.other_machine import OtherMachine
from rekindle.model.document import encode as encode_document
from rekindle.model.plan import BuildRecipe, Plan, Request
from rekindle.model.progress import Progress
from rekindle.scripts.formats import encode
from rekindle.scripts.recipe import Recipe, make_recipe
from rekindle.scripts.templates import find_template, render_script
from rekindle.source.patches import load_patches


@dataclass(frozen=True, kw_only=True)
class SourcePart:
    """What is packed: the sources of ``plan`` for ``other``, into ``folder``."""

    plan: Plan
    other: OtherMachine
    folder: Path
    progress: Progress


def pack_source(part: SourcePart, add: Callable[[Sequence[Request]], None]) -> list[str]:
    """Write the tree, patches and script; ``add`` resolves build tools. What could not be had, in words."""
    wanted = set(part.plan.build.patches) if part.plan.build else set()
    patches = {patch.id: patch.raw for patch in load_patches(part.plan.project) if patch.id in wanted}
    recipe = make_recipe(part.plan, patches)
    for name, raw in patches.items():
        write_atomically(part.folder / "patches" / f"{name}.patch", raw)
    kind: Literal["sh", "bat"] = "bat" if part.other.system == "windows" else "sh"
    write_atomically(part.folder / f"build.{kind}", encode(render_script(recipe, kind), kind))
    archive = part.folder / f"{part.plan.project}-{(part.plan.torch or '').split('+')[0]}.tar.gz"
    if not archive.is_file():
        _archive_tree(part, archive)
    shutil.rmtree(part.folder / "tree", ignore_errors=True)
    notes = _add_tools(recipe, archive, add)
    write_atomically(part.folder / "plan.json", encode_document(part.plan))
    values = {"title": recipe.title, "tree": archive.name.removesuffix(".tar.gz"), "windows": kind == "bat"}
    readme = find_template("source.txt.j2").render(values, build=part.plan.build or BuildRecipe(source=""))
    write_atomically(part.folder / "README.txt", readme)
    return notes


def _archive_tree(part: SourcePart, archive: Path) -> None:
    """The tree with its third parties in one file; git's own folders, and our notes of places here, stay outside."""
    release = (part.plan.torch or "").split("+")[0]
    tree = part.folder / "tree"
    part.progress.stage("source", f"{part.plan.project} {release}")
    place = part.plan.build.origin if part.plan.build else None
    source_fetch(tree, project=part.plan.project, release=release, place=place, progress=part.progress)
    half = archive.with_name(archive.name + ".part")
    name = archive.name.removesuffix(".tar.gz")
    with tarfile.open(half, "w:gz", compresslevel=6) as tar:
        tar.add(tree, arcname=name, filter=_without_owner)
    half.replace(archive)


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without the name of the owner; None for git's own folders and our notes, which stay outside."""
    if {".git", ".rekindle"} & set(info.name.split("/")):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _add_tools(recipe: Recipe, archive: Path, add: Callable[[Sequence[Request]], None]) -> list[str]:
    """The recipe's tools must be there; what the tree asks for besides is taken where it can be had."""
    add([request for line in recipe.requirements if (request := _read_requirement(line))])
    notes = []
    for line in _tree_requirements(archive):
        request = _read_requirement(line)
        if request is None:
            continue
        try:
            add([request])
        except StageFailed as error:
            notes.append(f"the tree also asks for {line}: {error.message}")
    return notes


def _tree_requirements(archive: Path) -> list[str]:
    """The lines of ``requirements.txt`` in the tree; none where it has no such file."""
    name = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name == f"{name}/requirements.txt" and member.isfile() and (file := tar.extractfile(member)):
                return file.read(1 << 20).decode("utf-8", "replace").splitlines()
    return []


def _read_requirement(line: str) -> Request | None:
    """A requirement that names a package and versions; anything else (an option, an address) is no tool."""
    try:
        wish = Requirement(line.partition("#")[0].strip())
    except InvalidRequirement:
        return None
    if wish.url:
        return None
    return Request(name=wish.name, specifier=str(wish.specifier) or None, why="builds torch")
