"""``build`` joined: the engine, then the wheel read back (configured = built), and causes for what failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.api.causes import with_cause
from rekindle.api.inspect import inspect

if TYPE_CHECKING:
    from rekindle.build.request import BuildRequest
    from rekindle.host.workspace import Workspace
    from rekindle.model.build import BuildFailure, BuildResult, BuildResults, BuildScript
    from rekindle.model.plan import Plan
    from rekindle.model.progress import Progress
    from rekindle.model.source import SourceTree


def build(request: BuildRequest, *, progress: Progress | None = None) -> BuildResults | BuildFailure:
    """A plan and a tree into a wheel per target Python; a failure is an account with its diagnosis."""
    from rekindle.build import build as carry_out
    from rekindle.build import make_order
    from rekindle.errors import BuildFailed
    from rekindle.model.build import BuildFailure, BuildResults

    order = make_order(request)
    results = []
    with order.workspace.lock("build"):
        for number, python in enumerate(order.pythons):
            options = order.options if number == 0 else order.options.continued()
            try:
                result = carry_out(
                    order.plan, order.tree, order.workspace, python=python, options=options, progress=progress
                )
            except BuildFailed as error:
                assert isinstance(error.failure, BuildFailure)
                return with_cause(error.failure, order.plan)
            results.append(result)
            if failure := read_back(result, order.plan, progress):
                return failure
    return BuildResults(results=tuple(results))


def build_one(
    plan: Plan,
    tree: SourceTree,
    workspace: Workspace,
    *,
    python: str,
    jobs: int | None = None,
    memory: str | None = None,
    launcher: str | None = None,
    target: str | None = None,
    progress: Progress | None = None,
) -> BuildResult | BuildFailure:
    """One wheel for one Python in a workspace that the caller has locked, read back against its plan."""
    from rekindle.build import BuildOptions
    from rekindle.build import build as carry_out
    from rekindle.build.options import parse_size
    from rekindle.errors import BuildFailed
    from rekindle.model.build import BuildFailure

    size = parse_size(memory) if memory else None
    options = BuildOptions(jobs=jobs, memory_bytes=size, launcher=launcher, target=target)
    try:
        result = carry_out(plan, tree, workspace, python=python, options=options, progress=progress)
    except BuildFailed as error:
        assert isinstance(error.failure, BuildFailure)
        return with_cause(error.failure, plan)
    return read_back(result, plan, progress) or result


def read_back(result: BuildResult, plan: Plan, progress: Progress | None = None) -> BuildFailure | None:
    """Does the wheel hold code for exactly what was planned? None where it does, or where no GPU was planned."""
    from rekindle.build.assertwanted import built_targets
    from rekindle.model.build import BuildFailure

    if not result.wheel or not plan.arch_list:
        return None
    report = inspect(result.wheel, cpu=False, progress=progress)
    kernels = report.gpu.torch_kernels
    fact = built_targets(plan, {*kernels.sass, *kernels.gfx})
    if fact.ok is not False:
        return None
    return BuildFailure(
        project=result.project,
        phase="read back",
        message=f"the wheel was to hold code for {fact.wanted} but holds {fact.found or 'none'}",
        log=result.log,
        facts=(*result.facts, fact),
    )


def build_script(request: BuildRequest) -> BuildScript:
    """What ``build`` would do, as a script that runs without Rekindle."""
    from rekindle.build import make_order
    from rekindle.build.script import render_script

    return render_script(make_order(request))


def save_bug_report(failure: BuildFailure, path: Path) -> None:
    """The account of a failed build as text to post, with names, hosts and secrets left out."""
    from rekindle.build.bugreport import render_bug_report
    from rekindle.host.files import write_atomically
    from rekindle.host.live import LiveHost

    write_atomically(path, render_bug_report(failure, LiveHost()))
