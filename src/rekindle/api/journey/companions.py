"""torchvision and torchaudio for a torch that was just built: fetched from where torch came from, built against it.

One that cannot be had or built is told and left out; the torch is good without it.
"""

from __future__ import annotations

from pathlib import Path

from rekindle.api.build import build_one
from rekindle.api.journey.options import UpOptions
from rekindle.api.journey.walk import Walk, digest
from rekindle.api.source import source_fetch
from rekindle.errors import Interrupted, RekindleError
from rekindle.facts import load_facts
from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure, BuildResult
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree
from rekindle.render.summary import summarise_build

PROJECTS = ("torchvision", "torchaudio")


def build_companions(
    walk: Walk, workspace: Workspace, plan: Plan, python: str, torch: Path, options: UpOptions, progress: Progress
) -> tuple[tuple[str, Path], ...]:
    """Name and wheel of each that was built against the wheel ``torch``."""
    row = load_facts().release((plan.torch or "").split("+")[0])
    origin = plan.build.origin if plan.build else "git"
    if origin not in ("git", "debian"):
        progress.note("torchvision and torchaudio are not built: torch came from a tree of your own")
        return ()
    found = []
    for project in PROJECTS:
        version = getattr(row, project, None)
        if version is None:
            progress.note(f"which {project} belongs to torch {plan.torch} is not known; it is not built")
            continue
        try:
            tree = source_fetch(
                project=project, release=version, place=origin, workspace=workspace.root, progress=progress
            )
        except RekindleError as error:
            # No network after a night of compiling: the torch is still installed and proven.
            again = "; the same command tries it again" if isinstance(error, Interrupted) else ""
            progress.note(f"{project} {version} is not built: {error.message}{again}")
            continue
        try:
            wheel = _build(walk, workspace, plan, python, torch, options, progress, tree)
        except Interrupted:
            raise
        except RekindleError as error:
            progress.note(f"{project} {version} is not built: {error.message}")
            continue
        if wheel is not None:
            found.append((project, wheel))
    return tuple(found)


def _build(
    walk: Walk,
    workspace: Workspace,
    plan: Plan,
    python: str,
    torch: Path,
    options: UpOptions,
    progress: Progress,
    tree: SourceTree,
) -> Path | None:
    project, version = tree.project, tree.version

    def make() -> BuildResult | BuildFailure:
        return build_one(
            plan, tree, workspace, python=python, memory=options.memory, jobs=options.jobs,
            launcher=options.launcher, progress=progress,
        )  # fmt: skip

    built = walk.tried_leg(
        project, f"{version}, compiled against the torch just built", BuildResult,
        digest(plan, tree.digest or "", tree.root, python, sha256_of(torch)), make, summarise_build,
        still_good=lambda kept: Path(kept.wheel).is_file() and sha256_of(Path(kept.wheel)) == kept.wheel_sha256,
    )  # fmt: skip
    if isinstance(built, BuildFailure):
        progress.note(f"{project} {version} is not built: {built.message}")
        return None
    return Path(built.wheel)
