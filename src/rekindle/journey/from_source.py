"""The legs of a source build: a tree, its patches, the build, the wheel read back; then torchvision and torchaudio,
from where torch came from and built against it. Without an index it is asked first whether the wheels are at hand that
the built torch needs when it is installed. A companion that cannot be had or built is told and left out; the same
command tries it again."""

import ast
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from rekindle.api.build_wheels import build_one
from rekindle.api.bundle_wheel import bundle
from rekindle.api.inspect_wheel import inspect
from rekindle.api.source import source_fetch, source_hipify, source_patch
from rekindle.errors import BadInput, Interrupted, OtherPlan, RekindleError, StageFailed
from rekindle.facts import PAIRED_PACKAGES, load_facts
from rekindle.host.files import read_head, sha256_of
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.interpreters.installer import Installer, choose_installer, pip_of, telling_lines
from rekindle.journey.fix import MOST_FIXES, repair_build
from rekindle.journey.walk import Walk, digest
from rekindle.model.build import BuildFailure, BuildResult, BundleReport
from rekindle.model.build_options import BuildOptions, CompilerOptions
from rekindle.model.document import shared_fields
from rekindle.model.journey import BuiltCompanion, UpOptions
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree
from rekindle.model.wheel import WheelReport
from rekindle.render.summary import summarise_patches
from rekindle.scripts.quoting import paste_line
from rekindle.source.origins import debian_package

_MAX_BYTES = 4 << 20
_SECONDS = 120.0
_LACKING = ("that satisfies the requirement", "No matching distribution")

# Where a plan says that its toolkit lies; the usual places are looked through anyway.
_TOOLKITS = ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "ROCM_HOME")


@dataclass(frozen=True, kw_only=True)
class SourceBuilds:
    """What the builds of one ``up`` share: torch's own, and those of its companions."""

    walk: Walk
    plan: Plan
    python: str
    options: UpOptions

    def build(
        self,
        name: str,
        announce: str,
        tree: SourceTree,
        inputs: str,
        *,
        first: Callable[[], None] = lambda: None,
        **chosen: Any,
    ) -> BuildResult | BuildFailure:
        """A build of ``tree``, after ``first``; kept."""
        chosen |= {"workspace": self.walk.workspace.root, **shared_fields(self.options, CompilerOptions)}
        options = BuildOptions(plan=self.plan, source=tree, pythons=(self.python,), **chosen)

        def make() -> BuildResult | BuildFailure:
            first()
            return build_with_repairs(options, Path(tree.root), self.options.clean, self.walk.inner)

        return self.walk.kept_leg(name, announce, BuildResult, inputs, make)

    def bundle(self, name: str, built: BuildResult) -> Path:
        """The built wheel, with the libraries inside that it would need from this machine where that is wanted."""
        wheel = Path(built.wheel)
        if not self.options.bundle:
            return wheel

        def make() -> BundleReport:
            return bundle_wheel(wheel, self.plan, self.walk.workspace, self.walk.inner, built.environment)

        what, inputs = "libraries it would need from outside", digest(built.wheel_sha256)
        fat = self.walk.kept_leg(name, what, BundleReport, inputs, make)
        return Path(fat.out) if fat.out else wheel


def build_from_source(builds: SourceBuilds) -> Path | BuildFailure | None:
    """The wheel, built, inspected and bundled; None where only a target was asked for."""
    walk, options, python = builds.walk, builds.options, builds.python
    if options.source:
        root = options.source.absolute()
    else:
        root = Path(walk.leg("fetch", "the source with its third parties", lambda: fetch_tree(walk, options)).root)
    plan = walk.workspace.plan
    tree = walk.leg("patch", "fixes for today's tools", lambda: patch_tree(root, plan, python), summarise_patches)
    if builds.plan.rocm:
        tree = walk.leg("hipify", "CUDA sources into HIP", lambda: source_hipify(root, progress=walk.inner))
    inputs = digest(builds.plan, tree.digest or "", str(root), python)

    def check_offline() -> None:
        if options.offline and not options.target:
            installer = choose_installer(options.installer, links=options.find_links, offline=True)
            refuse_missing_wheels(LiveHost(), installer, python, root)

    inputs, what = digest(inputs, options.target or ""), "this takes a while; Ctrl-C is safe"
    built = builds.build("build", what, tree, inputs, first=check_offline, target=options.target)
    if isinstance(built, BuildFailure):
        return built
    if options.target:
        return None
    inspect_built(walk, built)
    return builds.bundle("bundle", built)


def inspect_built(walk: Walk, built: BuildResult) -> WheelReport:
    """The leg that reads the built wheel back; kept."""
    inputs = digest(built.wheel_sha256)
    return walk.kept_leg("inspect", "the wheel, read byte by byte", WheelReport, inputs, lambda: inspect(built.wheel))


def build_with_repairs(
    chosen: BuildOptions, root: Path, may_clean: bool, progress: Progress
) -> BuildResult | BuildFailure:
    """A build; where it fails for a cause with a safe remedy, that is done and told, and the build goes on."""
    repairs: set[str] = set()
    while True:
        try:
            built = build_one(chosen, progress)
        except OtherPlan:
            # Begun anew only where the user gave --clean, and not after a repair: what was compiled before it is kept.
            if not may_clean or repairs:
                raise
            built = build_one(msgspec.structs.replace(chosen, clean=True), progress)
        if not isinstance(built, BuildFailure):
            return built
        repaired = repair_build(built, chosen, root)
        if repaired is None or repaired[1] in repairs or len(repairs) == MOST_FIXES:
            return built
        chosen, repair = repaired
        repairs.add(repair)
        progress.note(f"{repair}; the build goes on")


def bundle_wheel(
    wheel: Path, plan: Plan, workspace: Workspace, progress: Progress, built_with: Mapping[str, str] | None = None
) -> BundleReport:
    """The fat wheel, or why it stays as it is: ``out`` is then empty. ``built_with`` names where the build's libraries
    lie."""
    out = workspace.wheels / "fat"
    settings = {**(built_with or {}), **(plan.build.env if plan.build else {})}
    roots = (row.index.root for row in load_facts().supply.part if row.index and row.index.root)
    named = dict.fromkeys((*_TOOLKITS, *roots))
    places = [place for name in named if (place := settings.get(name)) and Path(place).is_dir()]
    looked = bundle(wheel, out=out, library_path=places, allow_missing=True, dry_run=True, progress=progress)
    if not looked.brought:
        return msgspec.structs.replace(looked, out=None)
    # What it brings has code for every card of its time; the wheel is for those of the plan.
    archs = [arch.removesuffix("+PTX") for arch in plan.arch_list] if plan.cuda else []
    return bundle(wheel, out=out, library_path=places, archs=archs, allow_missing=True, progress=progress)


def fetch_tree(walk: Walk, options: UpOptions) -> SourceTree:
    """The tree of the workspace's plan with all its third parties; what is there already is kept and checked."""
    place, links, offline = walk.workspace, options.find_links, options.offline
    tree = source_fetch(plan=place.plan, workspace=place.root, find_links=links, offline=offline, progress=walk.inner)
    if tree.missing_submodules:
        raise StageFailed(
            f"{len(tree.missing_submodules)} third parties are missing: {', '.join(tree.missing_submodules[:3])} …",
            remedy=next((part.fix for part in tree.parts if part.fix), "run the same command again: it continues"),
        )
    return tree


def patch_tree(root: Path, plan: Path, python: str) -> SourceTree:
    """The tree with the patches this build needs; a patch that does not fit ends the walk."""
    tree = source_patch(root, plan=plan, python=python)
    if tree.conflicts:
        names = ", ".join(patch.id for patch in tree.conflicts)
        remedy = f"rekindle source status --source {root}"
        raise StageFailed(f"patches that do not fit {root}: {names}; nothing was changed", remedy=remedy)
    return tree


def refuse_missing_wheels(host: Host, installer: Installer, python: str, root: Path) -> None:
    """Raise where pip cannot bring what setup.py will ask for in the wheel: before the hours of compiling."""
    if not (needed := named_requirements(root)):
        return
    pip = pip_of(host, python)
    with tempfile.TemporaryDirectory(prefix="rekindle-wheels-") as folder:
        words = ("download", "--disable-pip-version-check", "--no-input", "--dest", folder)
        done = host.run([*pip, *words, *installer.places, *needed], timeout=_SECONDS)
    # Only pip's own no counts: no pip, one that knows no such option, or no time is no answer.
    lacking = next((line for line in telling_lines(done.err) if any(word in line for word in _LACKING)), None)
    if done.ok or lacking is None:
        return
    line = paste_line(needed, windows=host.system == "windows")
    remedy = f"where there is a network: pip download -d wheels {line}"
    raise BadInput(f"--offline, and the wheels at hand lack what this torch needs beside it: {lacking}", remedy=remedy)


def named_requirements(root: Path) -> tuple[str, ...]:
    """The requirements that setup.py names for the installed package: literal words alone, nothing is run."""
    try:
        tree = ast.parse(read_head(root / "setup.py", _MAX_BYTES).decode("utf-8", "replace"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    words: list[str] = []
    for node in ast.walk(tree):
        names = [getattr(node, "arg", None), *(getattr(one, "id", None) for one in getattr(node, "targets", ()))]
        value = node.value if isinstance(node, ast.Assign | ast.keyword) and "install_requires" in names else None
        if isinstance(value, ast.List | ast.Tuple):
            words += [elt.value for elt in value.elts if isinstance(elt, ast.Constant) and isinstance(elt.value, str)]
    # A word with an address would be fetched from there, index or not.
    return tuple(dict.fromkeys(word for word in words if word and not word.startswith("-") and "@" not in word))


def wanted_companions(plan: Plan, options: UpOptions) -> tuple[BuiltCompanion, ...]:
    """What is to be built beside torch, known before anything starts."""
    if options.torch_only or options.target or plan.build is None or plan.project != "torch":
        return ()
    return tuple(want_companion(project, plan) for project in PAIRED_PACKAGES)


def want_companion(project: str, plan: Plan) -> BuiltCompanion:
    """The release of a companion that belongs to the torch of this plan, still to be built; or why it cannot be."""
    assert plan.build is not None
    version = load_facts().companion_release(project, plan.torch)
    origin, why = plan.build.origin, None
    if version is None:
        why = f"which {project} belongs to torch {plan.torch} is not known"
    elif origin == "debian":
        try:
            debian_package(project, version)
        except BadInput as error:
            why = error.message
    elif origin not in ("git", "tarball"):
        why = "torch came from a tree of your own"
    return BuiltCompanion(name=project, version=version, why=why)


def build_companions(builds: SourceBuilds, torch: Path) -> tuple[BuiltCompanion, ...]:
    """Each that was built against the wheel ``torch``, or why not."""
    results = []
    for companion in wanted_companions(builds.plan, builds.options):
        try:
            result = companion if companion.why else _build_companion(builds, torch, companion)
        except Interrupted:
            raise
        except RekindleError as error:
            # No network after a night of compiling: the torch is still installed and proven.
            result = msgspec.structs.replace(companion, why=error.message)
        if result.why:
            builds.walk.inner.note(f"{result.name} {result.version or ''}".rstrip() + f" is not built: {result.why}")
        results.append(result)
    return tuple(results)


def _build_companion(builds: SourceBuilds, torch: Path, companion: BuiltCompanion) -> BuiltCompanion:
    project, walk = companion.name, builds.walk

    def fetch() -> SourceTree:
        try:
            return source_fetch(
                project=project,
                release=companion.version,
                place="debian" if builds.plan.build and builds.plan.build.origin == "debian" else "git",
                workspace=walk.workspace.root,
                progress=walk.inner,
            )
        except Interrupted as error:
            raise StageFailed(f"{error.message}; the same command tries it again", remedy=error.remedy) from error

    tree = walk.leg(f"{project}-source", f"{companion.version}, the release for this torch", fetch)
    inputs = digest(builds.plan, tree.digest or "", tree.root, builds.python, sha256_of(torch))
    what = f"{companion.version}, compiled against {torch.name}"
    built = builds.build(project, what, tree, inputs, against=str(torch))
    if isinstance(built, BuildFailure):
        return msgspec.structs.replace(companion, why=built.message)
    wheel = builds.bundle(f"{project}-bundle", built)
    return msgspec.structs.replace(companion, wheel=str(wheel), wheel_sha256=sha256_of(wheel))
