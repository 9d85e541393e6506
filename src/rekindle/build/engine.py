"""A plan and a tree into a wheel: ``build`` carries out the phases in order and tells what became of them.

Phases: clean, environment, configure, compile, finish. Each is safe to cut short: the same call continues.
"""

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from rekindle.build import companion, finish, steps
from rekindle.build import tree as state
from rekindle.build.environment import BuildEnvironment, chosen_cuda, headers_beside_torch, toolkit_places
from rekindle.build.failure import BuildLog
from rekindle.build.farm import opened_cache, opened_farm, remove_objects
from rekindle.build.governor import elastic_jobs
from rekindle.build.launchers import count_from_here, opened_launcher
from rekindle.build.report import write_trace
from rekindle.build.request import check_inputs
from rekindle.build.work import Work
from rekindle.formats.ninja import has_objects
from rekindle.host.files import hold_lock, sha256_of
from rekindle.host.live import LiveHost
from rekindle.host.process import stop_signals_as_interrupt
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.interpreters.environment import TargetPython, prepare_target, requirements, take_as_is
from rekindle.model.build import BuildResult, spoken_targets
from rekindle.model.build_options import BuildOptions
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SourceTree, compiles_against_torch
from rekindle.readiness.case import PlannedBuild, wheel_version
from rekindle.readiness.cuda import find_toolkit
from rekindle.readiness.programs import find_build_python, python_tools
from rekindle.readiness.register import check_build, refuse_unready
from rekindle.readiness.rocm import refuse_cuda_tree
from rekindle.toolkits.compilers import compilers_to_name, find_compilers, keep_place_out
from rekindle.toolkits.cuda import cuda_home
from rekindle.toolkits.programs import find_cmake, find_ninja


def build(
    plan: Plan,
    tree: SourceTree,
    workspace: Workspace,
    *,
    python: str,
    options: BuildOptions | None = None,
    editable: bool = False,
    progress: Progress | None = None,
    host: Host | None = None,
) -> BuildResult:
    """Build ``tree`` as ``plan`` says for the interpreter ``python``; the wheel lies in ``workspace.wheels``. An
    ``editable`` tree goes on with the build that was begun, whatever was changed in it. Raises BadInput or MissingTool
    before anything long starts, BuildFailed with an account where the build ends with no, KeyboardInterrupt where it
    was stopped; after any of them the same call continues."""
    plan = companion.with_settings(companion.plan_for(plan, tree), dict(options.settings) if options else {})
    front = check_inputs(plan, tree, workspace)
    # Beside the build tree, not in it: --clean must be able to remove the tree while we hold it.
    lock, busy = front.build_tree.parent / ".rekindle-build.lock", f"another build works in {front.build_tree}"
    with (
        hold_lock(lock, lambda: busy, remedy="wait for it to end"),
        stop_signals_as_interrupt(),
        contextlib.closing(BuildLog(workspace.new_log("build"))) as log,
    ):
        work = Work(
            plan=plan,
            tree=tree,
            workspace=workspace,
            options=options or BuildOptions(),
            progress=progress or Silent(),
            host=host or LiveHost(),
            log=log,
            front=front,
            version=wheel_version(plan, tree),
            editable=editable,
        )
        try:
            with _with_launcher(work):
                return _run_phases(work, python)
        finally:
            if work.options.trace is not None:
                title = f"{work.tree.project} {work.version}"
                write_trace(work.options.trace, title, work.spans, front.ninja_tree, work.compiled_where)


@contextlib.contextmanager
def _with_launcher(work: Work) -> Iterator[None]:
    """Keep the launcher, and the farm behind it, for as long as the block runs."""
    recipe = work.plan.build
    settings = {**recipe.cmake, **recipe.env} if recipe else {}
    arguments = (work.host, work.options, settings, work.front.root, work.workspace.logs)
    if work.options.farm is None:
        with opened_launcher(*arguments) as work.launcher:
            yield
        return
    with opened_farm(*arguments) as (work.launcher, work.farm, first):
        for text in filter(None, (first, *(work.farm.news() if work.farm else ()))):
            work.note(text)
        yield


def _redo_wrong(work: Work, env: BuildEnvironment, again: Callable[[], Path | None], wheel: Path | None) -> Path | None:
    """The wheel without what a worker got wrong: its objects made again here, and put right in the cache."""
    if work.farm is None:
        return wheel
    wrong, names = work.farm.suspects()
    work.farm.wrong = tuple(wrong)
    if not wrong:
        return wheel
    work.farm.distrust(wrong)
    gone = remove_objects(work.front.ninja_tree, names)
    work.farm.redone = len(gone)
    who = ", ".join(sorted({work.farm.farm.name_of(worker.address) for worker in wrong}))
    work.note(f"{wrong[0].object} from {who} differs from what this machine makes: {len(gone)} objects made again here")
    with opened_cache(work.farm) as (client, more):
        if work.jobs is not None:
            work.jobs.governor.server = client.pid
        env.full.update(more)
        return again()


def _run_phases(work: Work, python: str) -> BuildResult:
    """The phases in order: look for everything, prepare a Python, set the environment, configure, compile, finish."""
    plan, options, build_tree = work.plan, work.options, work.front.build_tree
    assert plan.build is not None
    settings = {**plan.build.cmake, **plan.build.env}
    # Everything that can be found missing is looked for before anything is changed.
    ninja = find_ninja(work.host, options.ninja)
    brings_cmake = "cmake" in plan.build.pins and not (options.cmake or options.as_is)
    cmake = None if brings_cmake else find_cmake(work.host, options.cmake)
    compilers = find_compilers(work.host, settings)
    work.toolchain.update(find_toolkit(work.host, plan, settings, compilers[1].path))
    interpreter = find_build_python(work.host, python)
    place, room = work.front.root, work.workspace.root
    planned = PlannedBuild(
        plan=plan, python=python, place=place, tree=work.tree, cmake=options.cmake, ninja=options.ninja, workspace=room
    )
    refuse_cuda_tree(plan, work.tree)
    checks = check_build(work.host, planned)
    refuse_unready(checks)
    for check in checks:
        if check.status == "warn" and check.found:
            work.note(f"{check.found} → {check.fix}" if check.fix else check.found)
    torch = pin = named = None
    if compiles_against_torch(plan.project) and not options.as_is:
        torch = companion.torch_requirement(plan, work.workspace.wheels, interpreter, options.against)
    digest, made_for = None if work.editable else work.tree.digest, state.settings_of(plan)
    now = state.TreeState(project=work.tree.project, version=work.version, settings=made_for, source_digest=digest)
    before = _earlier_state(work, now)
    state.refuse_few_files(build_tree)
    with work.phase("environment", f"Python {interpreter.version}"):
        target = _target_python(work, interpreter, torch)
        cmake = cmake or find_cmake(work.host, str(target.bin / "cmake"))
        if compiles_against_torch(plan.project):
            work.facts = (companion.check_torch(work.host, target, plan, work.note),)
            pin = companion.exact_pin(work.facts[0])
            named = companion.toolkit_for_cmake(work.host, plan, work.facts[0], work.front.root)
    work.toolchain.update({tool.name: f"{tool.version} ({tool.path})" for tool in (cmake, ninja, *compilers)})
    work.toolchain["python"] = f"{interpreter.version} ({interpreter.path})"
    placeless = keep_place_out(work.host, compilers, build_tree)
    env = steps.environment(work, target, cmake, ninja, own_paths=placeless)
    env.choose({name: place for name, place in planned.roots.items() if name not in settings})
    env.choose({name: value for name, value in (("CUDA_HOME", named), ("PYTORCH_VERSION", pin)) if value})
    # What Python was linked with may not be here; its own words with our compilers are.
    linker = python_tools(work.host, interpreter.path).overrides(compilers[0].path, compilers[1].path)
    env.full.update({name: value for name, value in linker.items() if name not in env.chosen})
    env.full.update(toolkit_places(work.host, plan, settings))
    env.choose(chosen_cuda(work.host, plan, settings) | compilers_to_name(compilers, settings))
    if plan.cuda and compiles_against_torch(plan.project) and (home := cuda_home(work.host, settings, plan.cuda)):
        env.choose({"CUDA_HOME": home})
        if folders := headers_beside_torch(work.host, target.python, home):
            work.note(f"{home} lacks libraries' headers; they come from {', '.join(folders)}")
            env.choose({"CPATH": os.pathsep.join(folders)})
    configured = steps.configure(work, target, env, now, before)
    work.launcher = count_from_here(work.host, work.launcher) if work.launcher else None
    history = work.workspace.cache / f"history-{work.tree.project}.json"
    farm = work.launcher.jobs if work.launcher else None
    with elastic_jobs(options, ninja, history, str(build_tree), farm=farm) as work.jobs:
        if work.launcher and work.launcher.client:
            work.jobs.governor.server = work.launcher.client.pid
        if work.farm:
            work.farm.governor = work.jobs.governor if not options.jobs else None
            work.farm.keep_home(work.jobs.learnt)
        work.jobs.tell(env.full, chooses=work.front.chooses_jobs)
        if work.jobs.note:
            work.note(work.jobs.note)
        with work.phase("compile", spoken_targets(options.target or "") or f"wheel for Python {interpreter.version}"):
            again = functools.partial(steps.compile_tree, work, target, cmake, ninja, env)
            wheel = _redo_wrong(work, env, again, again())
    if work.farm:
        work.farm.end()
        work.compilers = {tool.path: sha256_of(Path(os.path.realpath(tool.path))) for tool in compilers}
    state.save_state(build_tree, msgspec.structs.replace(configured, running=False))
    return finish.finish(work, wheel, env, target)


def _target_python(work: Work, interpreter: Interpreter, torch: str | None) -> TargetPython:
    """``torch`` is what an extension of torch is compiled against; such an environment is kept apart."""
    assert work.plan.build is not None
    packages = requirements(work.plan.build.pins, work.front.requires, pep517=bool(work.front.backend))
    folder = work.workspace.root / "python" / interpreter.tag
    if torch:
        packages = (*(each for each in packages if not each.startswith("torch")), torch)
        folder = folder.with_name(f"{folder.name}-{work.plan.project}")
    if work.options.as_is:
        return take_as_is(work.host, interpreter, packages)
    return prepare_target(work.host, interpreter, folder, packages, work.log.write)


def _earlier_state(work: Work, now: state.TreeState) -> state.TreeState | None:
    """The state that an earlier run left, after its tree was repaired; None where this is the first."""
    tree = work.front.build_tree
    if work.options.clean:
        with work.phase("clean", str(tree)):
            _empty(tree)
        return None
    if (before := state.load_state(tree)) is None:
        return None
    if before.runs and (changed := state.differences(before, now)):
        if has_objects(tree):
            state.refuse_other_plan(changed, tree)
        # Nothing was compiled yet, so nothing is lost by configuring afresh.
        work.note(f"configuring anew: {changed[0]}")
        _empty(tree)
        return None
    if before.runs and state.sources_changed(before, now):
        work.note("the sources have changed since the last run: what depends on the changed files is compiled again")
    if before.running:
        work.log.write("rekindle: the last run did not end; continuing it")
        if empty := state.remove_empty_outputs(tree):
            work.note(f"{len(empty)} outputs were empty after the last run and are made again")
    return before


def _empty(build_tree: Path) -> None:
    state.clean(build_tree)
    build_tree.mkdir(exist_ok=True)
