"""torchvision and torchaudio for a torch that was just built: fetched from where torch came from, built against it.

One that cannot be had or built is told and left out; the torch is good without it, and the same command tries again.
"""

from pathlib import Path

from msgspec.structs import replace

from rekindle.api.source import source_fetch
from rekindle.errors import BadInput, Interrupted, RekindleError, StageFailed
from rekindle.facts import PAIRED_PACKAGES, load_facts
from rekindle.host.files import sha256_of
from rekindle.journey.from_source import SourceBuilds
from rekindle.journey.walk import digest
from rekindle.model.build import BuildFailure
from rekindle.model.journey import BuiltCompanion, UpOptions
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.source.origins import debian_package


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


def companions_from(plan: Plan) -> str:
    """Where the companions' trees come from: Debian where torch does, else git."""
    return "debian" if plan.build and plan.build.origin == "debian" else "git"


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
            result = replace(companion, why=error.message)
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
                place=companions_from(builds.plan),
                workspace=walk.workspace.root,
                progress=walk.inner,
            )
        except Interrupted as error:
            raise StageFailed(f"{error.message}; the same command tries it again", remedy=error.remedy) from error

    tree = walk.leg(f"{project}-source", f"{companion.version}, the release for this torch", fetch)
    built = builds.build(
        project,
        f"{companion.version}, compiled against {torch.name}",
        tree,
        digest(builds.plan, tree.digest or "", tree.root, builds.python, sha256_of(torch)),
        against=str(torch),
    )
    if isinstance(built, BuildFailure):
        return replace(companion, why=built.message)
    wheel = builds.bundle(f"{project}-bundle", built)
    return replace(companion, wheel=str(wheel), wheel_sha256=sha256_of(wheel))
