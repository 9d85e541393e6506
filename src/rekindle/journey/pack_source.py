"""The part of a pack from which a torch can be built years later: tree, patches, build tools, and a script. Compilers
and GPU toolkits are not in it; the README beside it names what the build wants of them."""

import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement

from rekindle.api.export import recipe_of
from rekindle.api.source import source_fetch
from rekindle.errors import StageFailed
from rekindle.host.files import write_atomically
from rekindle.model.document import encode as encode_document
from rekindle.model.plan import BuildRecipe, Plan, Request
from rekindle.model.progress import Progress
from rekindle.scripts.formats import encode
from rekindle.scripts.templates import find_template, render_script


def pack_source(
    plan: Plan, folder: Path, add: Callable[[Sequence[Request]], None], *, windows: bool, progress: Progress
) -> list[str]:
    """Write the plan's tree, patches and script into ``folder``; ``add`` resolves build tools. What could not be
    had."""
    recipe, patches = recipe_of(plan)
    for patch, raw in patches.items():
        write_atomically(folder / "patches" / f"{patch}.patch", raw)
    kind: Literal["sh", "bat"] = "bat" if windows else "sh"
    write_atomically(folder / f"build.{kind}", encode(render_script(recipe, kind), kind))
    release = (plan.torch or "").split("+")[0]
    name = f"{plan.project}-{release}"
    archive, tree = folder / f"{name}.tar.gz", folder / "tree"
    if not archive.is_file():
        progress.stage("source", f"{plan.project} {release}")
        origin = plan.build.origin if plan.build else None
        source_fetch(tree, project=plan.project, release=release, place=origin, progress=progress)
        half = archive.with_name(archive.name + ".part")
        with tarfile.open(half, "w:gz", compresslevel=6) as tar:
            tar.add(tree, arcname=name, filter=_without_owner)
        half.replace(archive)
    shutil.rmtree(tree, ignore_errors=True)
    # The recipe's tools must be there; what the tree asks for besides is taken where it can be had.
    add([request for line in recipe.requirements if (request := _read_requirement(line))])
    notes = []
    for line in _tree_requirements(archive, name):
        try:
            if request := _read_requirement(line):
                add([request])
        except StageFailed as error:
            notes.append(f"the tree also asks for {line}: {error.message}")
    write_atomically(folder / "plan.json", encode_document(plan))
    values = {"title": recipe.title, "tree": name, "windows": windows}
    readme = find_template("source.txt.j2").render(values, build=plan.build or BuildRecipe(source=""))
    write_atomically(folder / "README.txt", readme)
    return notes


def _without_owner(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Without the name of the owner; None for git's own folders and our notes, which stay outside."""
    if {".git", ".rekindle"} & set(info.name.split("/")):
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _tree_requirements(archive: Path, tree: str) -> list[str]:
    """The lines of ``requirements.txt`` in the tree; none where it has no such file."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name == f"{tree}/requirements.txt" and member.isfile() and (file := tar.extractfile(member)):
                return file.read(1 << 20).decode("utf-8", "replace").splitlines()
    return []


def _read_requirement(line: str) -> Request | None:
    """A requirement that names a package and versions; anything else (an option, an address) is no tool."""
    try:
        wish = Requirement(line.partition("#")[0].strip())
    except InvalidRequirement:
        return None
    return None if wish.url else Request(name=wish.name, specifier=str(wish.specifier) or None, why="builds torch")
