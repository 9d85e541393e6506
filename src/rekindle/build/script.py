"""A build as a POSIX shell script: the same environment, settings and commands, to read or to run elsewhere."""

from __future__ import annotations

from pathlib import Path

from rekindle.build.companion import plan_for
from rekindle.build.environment import ZIP_EPOCH, make_environment, render_cache_script
from rekindle.build.frontend import find_front_end
from rekindle.build.launchers import before_each_compiler
from rekindle.build.request import BuildOrder
from rekindle.build.target import requirements
from rekindle.build.toolkits import chosen_cuda
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.model.build import BuildScript
from rekindle.model.plan import HERE, Step
from rekindle.model.source import compiles_against_torch
from rekindle.readiness.naming import wheel_version
from rekindle.readiness.pythons import find_build_python
from rekindle.scripts.spell import shell_script


def render_script(order: BuildOrder) -> BuildScript:
    """What ``build`` would run, as steps for a POSIX shell."""
    tree = order.tree
    plan = plan_for(order.plan, tree)
    if plan.build is None:
        raise BadInput(f"the plan's answer is '{plan.answer}', so there is nothing to build")
    front = find_front_end(Path(tree.root))
    env = make_environment(
        plan,
        {},
        path_first=(),
        extra=_chosen(order),
        version=wheel_version(plan, tree),
        epoch=ZIP_EPOCH,
        project=tree.project,
    )
    env.chosen.update(chosen_cuda(LiveHost(), plan, {**plan.build.cmake, **plan.build.env}))
    wanted = requirements(plan.build.pins, front.requires, pep517=bool(front.backend))
    if compiles_against_torch(plan.project):
        torch = order.options.against or (f"torch=={plan.torch}" if plan.torch else "torch")
        wanted = (*(each for each in wanted if not each.startswith("torch")), torch)
    tools = ["ninja>=1.13", *([] if "cmake" in plan.build.pins else ["cmake"])]
    steps = [
        Step(kind="cd", folder=tree.root),
        Step(kind="set", env={name: value for name, value in sorted(env.chosen.items()) if name != "PATH"}),
    ]
    if env.cache_settings and front.kind == "cmake-setup":
        settings = "build/rekindle-settings.cmake"
        steps += [
            Step(kind="run", argv=("mkdir", "-p", "build")),
            Step(kind="write", folder=settings, argv=tuple(render_cache_script(env.cache_settings).splitlines())),
            Step(kind="set", env={"CMAKE_PROJECT_INCLUDE_BEFORE": f"{HERE}/{settings}"}),
        ]
    out = order.workspace.wheels
    for number, python in enumerate(order.pythons):
        interpreter = _interpreter(python)
        folder = str(order.workspace.root / "python" / f"script-{number}")
        if not order.options.as_is:
            steps += [
                Step(kind="run", argv=(interpreter, "-m", "venv", folder)),
                Step(kind="activate", folder=folder),
            ]
            interpreter = f"{folder}/bin/python"
            steps.append(Step(kind="run", argv=(interpreter, "-m", "pip", "install", *wanted, *tools)))
        configure = front.configure(interpreter, again=number > 0, out=out, defines=env.defines)
        if configure and (front.kind != "scikit" or order.options.targets):
            steps.append(Step(kind="run", argv=tuple(configure), env=front.configure_environment))
        if order.options.targets:
            steps.append(Step(kind="run", argv=("cmake", "--build", "build", "--target", *order.options.targets)))
        else:
            steps.append(Step(kind="run", argv=tuple(front.wheel(interpreter, out, env.defines))))
    return BuildScript(text=shell_script(steps, f"{tree.project} {wheel_version(plan, tree)}, as planned by rekindle."))


def _chosen(order: BuildOrder) -> dict[str, str]:
    """What the user chose beyond the plan, by the names that CMake and setup.py know."""
    chosen: dict[str, str] = {}
    if order.options.jobs:
        chosen["MAX_JOBS"] = str(order.options.jobs)
    if launcher := order.options.launcher:
        chosen |= before_each_compiler(launcher, launcher)
    return chosen


def _interpreter(python: str) -> str:
    """The interpreter as it is found here; a version that is not here by its usual name."""
    try:
        return find_build_python(LiveHost(), python).path
    except BadInput:
        return f"python{python}" if python[:1].isdigit() else python
