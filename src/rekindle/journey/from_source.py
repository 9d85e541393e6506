"""The legs of a source build: a tree, its patches, the build, the wheel read back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rekindle import api
from rekindle.api.build import read_back
from rekindle.errors import BuildFailed, StageFailed
from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.journey.install import find_python
from rekindle.journey.summary import (
    summarise_build,
    summarise_bundle,
    summarise_inspection,
    summarise_patches,
    summarise_tree,
)
from rekindle.journey.walk import Walk, digest
from rekindle.model.build import BuildResult
from rekindle.model.bundle import BundleReport
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree
from rekindle.model.wheel import WheelReport

if TYPE_CHECKING:
    from rekindle.journey.up import UpOptions


# Where a plan says that its toolkit lies; the usual places are looked through anyway.
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "CUDNN_ROOT", "ROCM_PATH", "ROCM_HOME")


def build_from_source(
    walk: Walk, workspace: Workspace, plan: Plan, machine: Machine, options: UpOptions, progress: Progress
) -> Path:
    """The wheel, built, inspected, and with the libraries inside that it would need from this machine."""
    if options.source:
        root = options.source.absolute()
    else:
        fetched = walk.leg(
            "fetch", "the source with its submodules", lambda: fetch_tree(workspace, progress), summarise_tree
        )
        root = Path(fetched.root)
    python = options.python or (find_python(machine, plan.python) if plan.python else sys.executable)
    tree = walk.leg("patch", "mends for today's tools", lambda: patch_tree(root, workspace, python), summarise_patches)
    inputs = digest(plan, tree.digest or "", str(root), python)
    built = walk.kept_leg(
        "build", "this takes a while; Ctrl-C is safe", BuildResult, inputs,
        lambda: build_tree(plan, tree, workspace, python, options, progress), summarise_build,
        still_good=wheel_is_there,
    )  # fmt: skip
    wheel = Path(built.wheel)
    walk.kept_leg(
        "inspect", "the wheel, read byte by byte", WheelReport, digest(built.wheel_sha256),
        lambda: api.inspect(str(wheel)), summarise_inspection,
    )  # fmt: skip
    if not options.bundle:
        return wheel
    fat = walk.kept_leg(
        "bundle", "libraries it would need from outside", BundleReport, digest(built.wheel_sha256),
        lambda: bundle_wheel(wheel, plan, workspace, progress), summarise_bundle, still_good=fat_is_there,
    )  # fmt: skip
    return Path(fat.out) if fat.out else wheel


def bundle_wheel(wheel: Path, plan: Plan, workspace: Workspace, progress: Progress) -> BundleReport:
    """The fat wheel, or why it stays as it is: ``out`` is then empty. What cannot be found is left to the machine."""
    out = workspace.wheels / "fat"
    settings = plan.build.env if plan.build else {}
    places = [place for name in _TOOLKITS if (place := settings.get(name)) and Path(place).is_dir()]
    looked = api.bundle(wheel, out=out, library_path=places, allow_missing=True, dry_run=True, progress=progress)
    if not looked.brought:
        return msgspec.structs.replace(looked, out=None)
    return api.bundle(wheel, out=out, library_path=places, allow_missing=True, progress=progress)


def fat_is_there(report: BundleReport) -> bool:
    return report.out is None or (Path(report.out).is_file() and sha256_of(Path(report.out)) == report.sha256)


def fetch_tree(workspace: Workspace, progress: Progress) -> SourceTree:
    """The tree of the workspace's plan with all its submodules; what is there already is kept and checked."""
    tree = api.source_fetch(plan=workspace.plan, workspace=workspace.root, progress=progress)
    if tree.missing_submodules:
        raise StageFailed(
            f"{len(tree.missing_submodules)} submodules are missing: {', '.join(tree.missing_submodules[:3])} …",
            remedy="run the same command again: it continues",
        )
    return tree


def patch_tree(root: Path, workspace: Workspace, python: str) -> SourceTree:
    tree = api.source_patch(root, plan=workspace.plan, python=python)
    if tree.conflicts:
        names = ", ".join(patch.id for patch in tree.conflicts)
        raise StageFailed(
            f"patches that do not fit {root}: {names}; nothing was changed",
            remedy=f"rekindle source status --source {root}",
        )
    return tree


def build_tree(
    plan: Plan, tree: SourceTree, workspace: Workspace, python: str, options: UpOptions, progress: Progress
) -> BuildResult:
    from rekindle.build import BuildOptions, build
    from rekindle.build.options import parse_size

    wanted = BuildOptions(memory_bytes=parse_size(options.memory) if options.memory else None)
    try:
        built = build(plan, tree, workspace, python=python, options=wanted, progress=progress)
    except BuildFailed as failed:
        raise _told(failed, plan) from failed
    if failure := read_back(built, plan, progress):
        raise StageFailed(failure.message, remedy=f"the wheel is kept for a look: rekindle inspect {built.wheel}")
    return built


def _told(failed: BuildFailed, plan: Plan) -> StageFailed:
    """The failure in one breath: what happened, why, and what mends it, where that is known."""
    from rekindle.api.causes import with_cause
    from rekindle.model.build import BuildFailure

    account = failed.failure
    matches = with_cause(account, plan).diagnosis.matches if isinstance(account, BuildFailure) else ()
    if not matches or not matches[0].fix:
        return StageFailed(failed.message, remedy=failed.remedy)
    return StageFailed(f"{failed.message}\n{matches[0].cause}", remedy=matches[0].fix[0])


def wheel_is_there(built: BuildResult) -> bool:
    wheel = Path(built.wheel)
    return wheel.is_file() and sha256_of(wheel) == built.wheel_sha256
