"""``build``: the engine, then the wheel read back (configured = built), and causes for what failed."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.api.explain_log import with_cause
from rekindle.api.extensions import with_own_plan, with_sources
from rekindle.api.inspect_wheel import inspect
from rekindle.api.plan_torch import this_machine
from rekindle.build import make_order
from rekindle.build.assertwanted import built_targets
from rekindle.build.companion import plan_for
from rekindle.build.failure import render_bug_report
from rekindle.build.request import BuildOrder, admit
from rekindle.build.steps import render_script
from rekindle.errors import BadInput, BuildFailed
from rekindle.facts import PAIRED_PACKAGES
from rekindle.host.files import write_for_user
from rekindle.host.live import LiveHost
from rekindle.host.made import mark_made
from rekindle.host.protocol import Host
from rekindle.interpreters.environment import requirements
from rekindle.model.build import BuildFailure, BuildResult, BuildResults
from rekindle.model.build_options import BuildOptions
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree
from rekindle.model.supply import DiskPhase
from rekindle.model.words import Text
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.register import check_build
from rekindle.readiness.supplies import check_companion
from rekindle.source.patches import status
from rekindle.source.supply import with_parts
from rekindle.source.tree import tree_version

# The door, with this machine to compare the plan's places with.
admit_here = functools.partial(admit, machine=this_machine)


def build(
    options: BuildOptions | None = None, *, trust: bool = False, progress: Progress | None = None, **choices: Any
) -> BuildResults | BuildFailure:
    """A plan and a tree into a wheel per target Python.

    What can be chosen are the fields of :class:`~rekindle.model.build_options.BuildOptions`: given as that value, or
    each by its name. A plan's file that was not made here is refused (:class:`rekindle.errors.Untrusted`) unless
    ``trust`` says otherwise; a plan given as a value is the caller's own.

    A build that fails is a value, :class:`~rekindle.model.build.BuildFailure`: the first real error, the command that
    made it, and the diagnosis. Interrupted, killed or out of disk: the same call continues.

    >>> import sys
    >>> chosen = {"plan": spark_plan, "source": spark_tree, "workspace": folder, "pythons": (sys.executable,)}
    >>> outcome = build(**chosen, target="no_such_target", as_is=True)
    >>> type(outcome).__name__, outcome.phase in ("configure", "compile"), bool(outcome.message)
    ('BuildFailure', True, True)
    """
    order = order_for(replace(options or BuildOptions(), **choices), progress)
    trust = trust or isinstance(order.options.plan, Plan)
    admit_here(order.plan, trust=trust)
    with order.workspace.lock("build"):
        return carry_out(order, progress, trust=trust)


def carry_out(order: BuildOrder, progress: Progress | None, *, trust: bool) -> BuildResults | BuildFailure:
    """The build itself, in a workspace that the caller holds: the only call of the engine, behind the one door."""
    from rekindle.build import build as run

    admit_here(order.plan, trust=trust)
    results, what = [], (order.plan, order.tree, order.workspace)
    for number, python in enumerate(order.pythons):
        options = order.options if number == 0 else order.options.for_next_python()
        try:
            result = run(*what, python=python, options=options, editable=order.editable, progress=progress)
        except BuildFailed as error:
            assert isinstance(error.failure, BuildFailure)
            return with_cause(error.failure, order.plan)
        # As it was built, settings by hand included: its own statement leads back to what ran here already.
        mark_made(result.plan)
        results.append(result)
        if failure := read_back(result, result.plan, progress):
            return failure
    return BuildResults(results=tuple(results))


def build_one(
    options: BuildOptions, progress: Progress | None = None, *, trust: bool = False
) -> BuildResult | BuildFailure:
    """One wheel for one Python in a workspace that the caller has locked, read back against its plan. ``trust`` is for
    a plan that was admitted already; any other must have been made here."""
    built = carry_out(order_for(options), progress, trust=trust)
    return built if isinstance(built, BuildFailure) else built.results[0]


def build_checks(
    plan: Plan,
    *,
    python: str,
    place: Path,
    source: Path | None = None,
    host: Host | None = None,
    installs: bool = False,
    places: Mapping[DiskPhase, Path] | None = None,
) -> tuple[Check, ...]:
    """What a planned build asks of this machine (and of the tree ``source``, where there is one), in seconds.

    ``installs`` asks pip as well: something else takes long before the environment is made. ``places`` are where the
    phases after the build write.
    """
    tree = with_parts(status(source)) if source is not None else None
    planned = PlannedBuild(
        plan=plan,
        python=python,
        place=source or place,
        tree=tree,
        packages=requirements(plan.build.pins, (), pep517=False) if installs and plan.build else (),
        workspace=place,
        places=places or {},
    )
    return check_build(host or LiveHost(), planned)


def companion_checks(
    plan: Plan, project: str, version: str, *, python: str, place: Path, whole: bool, host: Host | None = None
) -> tuple[Check, ...]:
    """What torchvision or torchaudio ask of this machine, by a plan for their torch; ``whole``: and what every build
    asks."""
    companion = plan_for(plan, SourceTree(project=project, version=version, root=str(place)))
    host = host or LiveHost()
    planned = PlannedBuild(plan=companion, python=python, place=place)
    checks = check_build(host, planned) if whole else tuple(check_companion(host, companion))
    without = "   # or leave torchvision and torchaudio out: --torch-only"
    return tuple(
        replace(check, found=f"{project}: {check.found}", fix=f"{check.fix or ''}{without}".strip())
        if check.status == "fail"
        else check
        for check in checks
    )


def read_back(result: BuildResult, plan: Plan, progress: Progress | None = None) -> BuildFailure | None:
    """Does the wheel hold code for exactly what was planned? None where it does, or where no GPU was planned."""
    if not result.wheel or not plan.arch_list:
        return None
    report = inspect(result.wheel, cpu=False, progress=progress)
    kernels = report.gpu.kernels
    held = {*kernels.sass, *kernels.gfx}
    if plan.project != "torch":
        held |= {name for library in report.gpu.libraries for name in (*library.sass, *library.gfx)}
    fact = built_targets(plan, held)
    if fact.ok is not False:
        return None
    return BuildFailure(
        project=result.project,
        phase="read back",
        message=f"the wheel was to hold code for {fact.wanted} but holds {fact.found or 'none'}",
        log=result.log,
        facts=(*result.facts, fact),
    )


def build_script(options: BuildOptions | None = None, **choices: Any) -> Text:
    """What ``build`` would do, as a script that runs without Rekindle.

    >>> script = build_script(plan=spark_plan, source=spark_tree, workspace=folder)
    >>> "setup.py" in script.text
    True
    """
    return render_script(order_for(replace(options or BuildOptions(), **choices)))


def save_bug_report(failure: BuildFailure, path: Path) -> None:
    """The account of a failed build as text to post, with names, hosts and secrets left out."""
    write_for_user(path, render_bug_report(failure))


def order_for(options: BuildOptions, progress: Progress | None = None) -> BuildOrder:
    """Everything the options leave open, decided: an extension's sources and plan, the tree, what is known of it."""
    definite = with_own_plan(with_sources(options, progress))
    order = make_order(definite)
    if not isinstance(definite.source, SourceTree):
        order = _add_identity(order)
    if order.tree.project not in ("torch", *PAIRED_PACKAGES):
        return order
    # Its third parties as the source stage sees them; others' trees stay as they are.
    _, version = tree_version(Path(order.tree.root))
    return dataclasses.replace(order, tree=with_parts(replace(order.tree, version=version)))


def _add_identity(order: BuildOrder) -> BuildOrder:
    """A tree given by its place, with what provenance must say of it: commit, digest, patches. It may be edited."""
    tree = order.tree
    if tree.digest is not None:
        return order
    try:
        state = status(Path(tree.root))
    except BadInput:
        return order  # an extension of torch, or a tree whose version.txt is no version: nothing is known of it
    known = {name: getattr(state, name) for name in ("commit", "origin", "digest", "patches", "hipified")}
    return dataclasses.replace(order, tree=replace(tree, **known), editable=True)
