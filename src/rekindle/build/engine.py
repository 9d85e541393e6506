"""A plan and a tree into a wheel: ``build`` carries out the phases in order and tells what became of them.

Phases: environment, configure, check, compile, finish. Each is safe to cut short: the same call continues.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.build import finish, state, tools
from rekindle.build.environment import ZIP_EPOCH, BuildEnvironment, make_environment, render_cache_script
from rekindle.build.estimate import make_estimate
from rekindle.build.failure import account_for, killed_for_memory
from rekindle.build.frontend import FrontEnd, find_front_end
from rekindle.build.jobs import Jobs, elastic_jobs
from rekindle.build.log import BuildLog
from rekindle.build.naming import wheel_version
from rekindle.build.options import BuildOptions
from rekindle.build.supervise import Supervisor
from rekindle.build.target import TargetPython, find_interpreter, prepare_target, requirements, take_as_is
from rekindle.errors import BadInput, BuildFailed, WorkspaceBusy
from rekindle.host.files import write_atomically
from rekindle.host.live import LiveHost
from rekindle.host.process import run_long, stop_signals_as_interrupt
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildResult, Phase
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import SourceTree

MAX_RETRIES = 3


@dataclass(kw_only=True)
class Work:
    """Everything one build carries from phase to phase."""

    plan: Plan
    tree: SourceTree
    workspace: Workspace
    options: BuildOptions
    progress: Progress
    host: Host
    log: BuildLog
    front: FrontEnd
    version: str
    jobs: Jobs | None = None
    peak_bytes: int = 0
    retried: list[str] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    toolchain: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        begun = time.monotonic()
        self.progress.stage(name, detail)
        self.log.write(f"== {name} {detail}".rstrip())
        try:
            yield
        finally:
            self.phases.append(Phase(name=name, seconds=round(time.monotonic() - begun, 3)))

    def run(self, phase: str, argv: list[str], env: dict[str, str]) -> None:
        """Run one command; a compiler that was killed for memory is retried alone."""
        failed: list[str] = []
        for attempt in range(MAX_RETRIES + 1):
            supervisor = self._supervisor(phase)
            if attempt:
                supervisor.run_alone(failed)
            self.log.command(argv, self.front.root)
            ended = run_long(argv, cwd=self.front.root, env=env, on_line=supervisor.line, tick=supervisor.tick)
            if ended.ok:
                return
            failed = killed_for_memory(self.log, self.jobs.governor.killed if self.jobs else [])
            if not failed or attempt == MAX_RETRIES:
                raise account_for(self.tree.project, phase, argv, ended.code, self.log)
            self.retried += failed
            self.progress.note(f"killed for memory: {', '.join(failed)}; retrying alone")
            self.log.write(f"rekindle: killed for memory, retrying alone: {' '.join(failed)}")

    def _supervisor(self, phase: str) -> Supervisor:
        if self.jobs is None:
            return Supervisor(self.log, self.progress, phase)
        return Supervisor(
            self.log,
            self.progress,
            phase,
            governor=self.jobs.governor,
            estimate=make_estimate(self.front.build_tree, self.jobs.learnt),
            max_jobs=self.jobs.max_jobs,
        )


def build(
    plan: Plan,
    tree: SourceTree,
    workspace: Workspace,
    *,
    python: str,
    options: BuildOptions | None = None,
    progress: Progress | None = None,
    host: Host | None = None,
) -> BuildResult:
    """Build ``tree`` as ``plan`` says for the interpreter ``python``; the wheel lies in ``workspace.wheels``.

    Raises BadInput or MissingTool before anything long starts, BuildFailed with an account where the build
    ends with no, KeyboardInterrupt where it was stopped; after any of them the same call continues.
    """
    options = options or BuildOptions()
    front = check_inputs(plan, tree, workspace)
    with (
        _tree_lock(front.build_tree),
        stop_signals_as_interrupt(),
        BuildLog(workspace.new_log("build")) as log,
    ):
        work = Work(
            plan=plan,
            tree=tree,
            workspace=workspace,
            options=options,
            progress=progress or Silent(),
            host=host or LiveHost(),
            log=log,
            front=front,
            version=wheel_version(plan, tree),
        )
        return _carry_out(work, python)


def check_inputs(plan: Plan, tree: SourceTree, workspace: Workspace) -> FrontEnd:
    """One line for each thing that cannot work, before anything long starts."""
    if plan.answer != "build" or plan.build is None:
        raise BadInput(
            f"the plan's answer is '{plan.answer}', so there is nothing to build",
            remedy="'rekindle plan --build' insists on a source build",
        )
    if plan.project != tree.project:
        raise BadInput(f"the plan is for {plan.project}, but {tree.root} is a tree of {tree.project}")
    wanted = plan.torch if plan.project == "torch" else None
    if wanted and tree.version and not _same_release(wanted, tree.version):
        raise BadInput(
            f"the plan is for torch {wanted}, but {tree.root} is {tree.version}",
            remedy=f"'rekindle source fetch' brings the tree of {wanted}",
        )
    root = Path(tree.root)
    if not root.is_dir():
        raise BadInput(f"there is no source tree at {root}")
    for folder in (workspace.wheels, workspace.logs, root / "build"):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(f"cannot write to {folder}: {error.strerror or error}") from error
        if not os.access(folder, os.W_OK):
            raise BadInput(f"cannot write to {folder}", remedy="give a writable place with --workspace DIR")
    return find_front_end(root)


def _same_release(left: str, right: str) -> bool:
    """Major and minor decide: version.txt of the tag v1.13.1 really says 1.13.0a0."""
    from packaging.version import InvalidVersion, Version

    try:
        return Version(left).release[:2] == Version(right).release[:2]
    except InvalidVersion:
        return left == right


@contextlib.contextmanager
def _tree_lock(build_tree: Path) -> Iterator[None]:
    import filelock

    # Beside the build tree, not in it: --clean must be able to remove the tree while we hold it.
    lock = filelock.FileLock(build_tree.parent / ".rekindle-build.lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise WorkspaceBusy(f"another build works in {build_tree}", remedy="wait for it to end") from None
    try:
        yield
    finally:
        lock.release()


def _carry_out(work: Work, python: str) -> BuildResult:
    plan, options = work.plan, work.options
    assert plan.build is not None
    before = state.load_state(work.front.build_tree)
    if options.clean and before is not None:
        with work.phase("clean", str(work.front.build_tree)):
            shutil.rmtree(work.front.build_tree)
        before = None
    now = state.TreeState(
        project=work.tree.project,
        version=work.version,
        settings=state.settings_of(plan, options.launcher),
        source_digest=work.tree.digest,
    )
    if before is not None and before.runs:
        state.refuse_other_plan(before, now, work.front.build_tree)
    ninja = tools.find_ninja(work.host, options.ninja)
    cmake = tools.find_cmake(work.host, options.cmake)
    compilers = tools.find_compilers(work.host, {**plan.build.cmake, **plan.build.env})
    work.toolchain.update({tool.name: f"{tool.version} ({tool.path})" for tool in (cmake, ninja, *compilers)})
    interpreter = find_interpreter(work.host, python)
    work.toolchain["python"] = f"{interpreter.version} ({interpreter.path})"
    with work.phase("environment", f"Python {interpreter.version}"):
        wanted = requirements(plan.build.pins, work.front.requires, pep517=work.front.kind == "pep517")
        if options.as_is:
            target = take_as_is(work.host, interpreter, wanted)
        else:
            folder = work.workspace.root / "python" / interpreter.tag
            target = prepare_target(interpreter, folder, wanted, dict(work.host.env), work.log.write)
    if "cmake" in plan.build.pins and not options.as_is:
        cmake = tools.find_cmake(work.host, str(target.bin / "cmake"))
        work.toolchain["cmake"] = f"{cmake.version} ({cmake.path})"
    env = _environment(work, target, cmake, ninja)
    resumed = before is not None and before.configured
    configured = _configure(work, target, env, now, before)
    history = work.workspace.cache / f"history-{work.tree.project}.json"
    with elastic_jobs(options, ninja, history, str(work.front.build_tree)) as work.jobs:
        env.full.update(work.jobs.env)
        if work.jobs.note:
            work.notes.append(work.jobs.note)
            work.progress.note(work.jobs.note)
        with work.phase("compile", options.target or f"wheel for Python {interpreter.version}"):
            wheel = _compile(work, target, cmake, env)
    state.save_state(work.front.build_tree, configured)
    with work.phase("finish"):
        return finish.finish(work, wheel, env, interpreter, resumed=resumed)


def _environment(work: Work, target: TargetPython, cmake: tools.Tool, ninja: tools.Tool) -> BuildEnvironment:
    env = make_environment(
        work.plan,
        work.host.env,
        path_first=[*tools.gather(work.workspace.root / "tools", cmake, ninja), target.bin],
        extra={},
        version=work.version,
        epoch=ZIP_EPOCH,
        project=work.tree.project,
    )
    if env.dropped:
        note = f"not taken from your shell: {', '.join(env.dropped)}"
        work.notes.append(note)
        work.progress.note(note)
    if env.cache_settings:
        script = work.front.build_tree / "rekindle-settings.cmake"
        write_atomically(script, render_cache_script(env.cache_settings))
        env.full["CMAKE_PROJECT_INCLUDE_BEFORE"] = env.chosen["CMAKE_PROJECT_INCLUDE_BEFORE"] = str(script)
    return env


def _configure(
    work: Work, target: TargetPython, env: BuildEnvironment, now: state.TreeState, before: state.TreeState | None
) -> state.TreeState:
    """Configure unless this tree already is configured for this Python."""
    import msgspec

    runs = (before.runs if before else 0) + 1
    done = before is not None and before.configured and before.python == target.python
    started = msgspec.structs.replace(now, running=True, runs=runs, configured=done, python=target.python)
    state.save_state(work.front.build_tree, started)
    argv = work.front.configure(target.python, again=before is not None and not done)
    if argv is not None and not done:
        with work.phase("configure"):
            work.run("configure", argv, {**env.full, **work.front.configure_environment})
    configured = msgspec.structs.replace(started, configured=True, running=False)
    state.save_state(work.front.build_tree, msgspec.structs.replace(configured, running=True))
    return configured


def _compile(work: Work, target: TargetPython, cmake: tools.Tool, env: BuildEnvironment) -> Path | None:
    if work.options.target:
        argv = [cmake.path, "--build", str(work.front.build_tree), "--target", work.options.target]
        work.run("compile", argv, env.full)
        return None
    out = work.workspace.build / "dist"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    work.run("compile", work.front.wheel(target.python, out), env.full)
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise BuildFailed(
            f"the build ended well but left {len(wheels)} wheels instead of one",
            account_for(work.tree.project, "compile", [], 0, work.log).failure,
        )
    return wheels[0]
