"""The steps of a build: its environment, configure with the check of what came out, compile; and all of it as a POSIX
shell script with the same environment, settings and commands, to read or to run elsewhere.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from rekindle.build import environment as conf
from rekindle.build.assertwanted import SUMMARY_FILE, check_configuration, summary_lines
from rekindle.build.companion import plan_for
from rekindle.build.failure import account_for
from rekindle.build.frontend import find_front_end
from rekindle.build.history import ObjectCosts
from rekindle.build.launchers import before_each_compiler, behind_one_name, without_masquerades
from rekindle.build.request import BuildOrder
from rekindle.build.tree import TreeState, forget_python, load_state, save_state
from rekindle.build.work import Work
from rekindle.errors import BadInput, BuildFailed
from rekindle.formats.ninja import MAX_BYTES
from rekindle.host.files import text_at, write_atomically, write_if_changed
from rekindle.host.live import LiveHost
from rekindle.interpreters.environment import TargetPython, requirements
from rekindle.model.build import BuildFailure
from rekindle.model.plan import HERE, Step
from rekindle.model.progress import GIANT_SECONDS
from rekindle.model.source import compiles_against_torch
from rekindle.model.words import Text
from rekindle.readiness.case import wheel_version
from rekindle.readiness.programs import find_build_python
from rekindle.scripts.quoting import shell_script
from rekindle.toolkits.programs import Tool

_OBJECT = re.compile(r"build ((?:[^:$ ]|\$.)+\.(?:o|obj))(?: [^:]*)?: ")
# One ends where a line is neither indented nor continues the one before ($ at its end).
_STATEMENT_END = re.compile(r"\n(?<!\$\n)(?! )")

_WRITTEN = re.compile(r"-- Build files have been written to: (.+)")


def environment(
    work: Work, target: TargetPython, cmake: Tool, ninja: Tool, *, own_paths: bool
) -> conf.BuildEnvironment:
    """``own_paths``: the compilers can keep the tree's place out of what they make."""
    shell = dict(work.host.env)
    shell["PATH"], disguised = without_masquerades(shell.get("PATH", ""))
    for folder in disguised:
        work.note(f"left {folder} out of PATH: its compilers are a cache in disguise (--launcher does that openly)")
    extra, tools = work.launcher.env if work.launcher else {}, work.workspace.root / "tools"
    scripts = work.launcher.scripts if work.launcher else {}
    env = conf.make_environment(
        work.plan,
        shell,
        path_first=[*link_tools(tools, cmake, ninja), target.bin],
        extra=behind_one_name(extra, tools, scripts) if work.front.takes_cmake_settings else extra,
        version=work.version,
    )
    env.full.update(work.launcher.private if work.launcher else {})
    if work.tree.project == "torch" and work.plan.build is not None:
        env.cache_settings.update(
            conf.driver_stub(work.host, work.plan, {**work.plan.build.cmake, **work.plan.build.env})
        )
    if env.dropped:
        work.note(f"not taken from your shell: {', '.join(env.dropped)}")
    flag, place = conf.prefix_map(work.front.root) if own_paths else None, target.bin.parent
    more: list[str] = []
    if flag and not work.options.as_is and compiles_against_torch(work.plan.project) and "=" not in str(place):
        # The environment's place, out of what torch's headers say of themselves (__FILE__).
        more = list(filter(None, [conf.prefix_map(place, "python")]))
    if work.front.takes_cmake_settings and (env.cache_settings or flag):
        script = work.front.build_tree / "rekindle-settings.cmake"
        # ccache hits behind these flags, also in another place; the others were not tried.
        steady = work.launcher is None or work.launcher.name == "ccache"
        texts = {script: conf.render_cache_script(env.cache_settings, flag, steady_cuda=steady, more=more)}
        if flag and steady:
            texts[work.front.build_tree / conf.FLAG_FILE] = conf.flag_file(flag)
        for place, text in texts.items():
            write_if_changed(place, text)
        env.choose({"CMAKE_PROJECT_INCLUDE_BEFORE": str(script)})
        if flag and work.launcher and work.launcher.name == "ccache" and "CCACHE_HASHDIR" not in env.chosen:
            # It counts the folder as part of what nvcc compiles. With the flags above it is none.
            env.choose({"CCACHE_NOHASHDIR": "1"})
    elif env.cache_settings:
        work.note(f"this tree takes no CMake settings: {', '.join(sorted(env.cache_settings))} left out")
    if flag and work.front.kind != "scikit":
        # For what setuptools compiles itself; CMake is configured without it.
        quoted = [f'"{option}"' if any(char in " '" for char in option) else option for option in (flag, *more)]
        # setuptools since 2024 takes CXXFLAGS alone for C++; torch itself has no C++ of that kind.
        names = ("CFLAGS", "CXXFLAGS") if compiles_against_torch(work.plan.project) else ("CFLAGS",)
        for name in names:
            env.after_configure[name] = " ".join([env.chosen.get(name, ""), *quoted]).strip()
    return env


def link_tools(folder: Path, *chosen: Tool) -> list[Path]:
    """Folders to put first on PATH so that exactly these tools are found, whatever else lies beside them. One folder of
    links; the folder of one tool may hold another version of the next (a virtual environment with CMake 4 and Ninja,
    say). Windows, where links need rights, gets the tools' own folders."""
    if os.name == "nt":
        return [Path(tool.path).parent for tool in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    for tool in chosen:
        link = folder / tool.name
        if not (link.is_symlink() and link.readlink() == Path(tool.path)):
            link.unlink(missing_ok=True)
            link.symlink_to(tool.path)
    return [folder]


def configure(
    work: Work, target: TargetPython, env: conf.BuildEnvironment, now: TreeState, before: TreeState | None
) -> TreeState:
    """Configure unless this tree already is configured for this Python; then check what came out."""
    tree = work.front.build_tree
    done = work.resumed = before is not None and before.configured and before.python == target.python
    runs = (before.runs if before else 0) + 1
    started = msgspec.structs.replace(now, running=True, runs=runs, configured=done, python=target.python)
    save_state(tree, started)
    if before is not None and before.python not in (None, target.python):
        forget_python(tree)
    log: list[str] = []
    again = before is not None and not done
    argv = work.front.configure(target.python, again=again, out=_empty_dist(work), defines=env.defines)
    if argv is not None and not done:
        with work.phase("configure"):
            work.run("configure", argv, {**env.full, **work.front.configure_environment})
        log = list(work.log.recent)
        write_atomically(tree / SUMMARY_FILE, "\n".join(summary_lines(log)))
    if argv is not None:
        check(work, log)
    configured = msgspec.structs.replace(started, configured=True)
    save_state(tree, configured)
    return configured


def renew_build_file(ninja: str, build_tree: Path, jobs: int) -> list[str]:
    """The command that makes what ``build.ninja`` itself depends on, such as torch's generated code: Ninja runs those
    steps before it asks a jobserver, as many at once as it guesses."""
    return [ninja, "-C", str(build_tree), f"-j{jobs}", "build.ninja"]


def compile_tree(work: Work, target: TargetPython, cmake: Tool, ninja: Tool, env: conf.BuildEnvironment) -> Path | None:
    """The wheel the tree's own front end makes; None where only a target was wanted."""
    ours = work.front.takes_cmake_settings and (work.front.build_tree / "build.ninja").is_file()
    if ours and work.jobs is not None and "MAKEFLAGS" in work.jobs.env:
        work.run("compile", renew_build_file(ninja.path, work.front.build_tree, work.jobs.max_jobs), env.full)
    if work.jobs is not None and (count := giants_first(work.front.build_tree, work.jobs.learnt)):
        work.log.write(f"rekindle: {count} files that take long are started first")
    if work.options.targets:
        if not work.front.takes_cmake_settings:
            raise BadInput(f"{work.tree.root} is not configured by CMake, so it has no target {work.options.target}")
        argv = [cmake.path, "--build", str(work.front.build_tree), "--target", *work.options.targets]
        work.run("compile", argv, env.full)
        return None
    out = _empty_dist(work)
    argv = work.front.wheel(target.python, out, env.defines)
    # A front end that cannot stop after configuring is checked while it runs.
    more = {} if work.front.takes_cmake_settings else {"watch": check_when_configured(work)}
    work.run("compile", argv, {**env.full, **env.after_configure}, **more)
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        error = account_for(work.tree.project, "compile", [], 0, work.log)
        raise BuildFailed(f"the build ended well but left {len(wheels)} wheels instead of one", error.failure)
    return wheels[0]


def _empty_dist(work: Work) -> Path:
    out = work.workspace.build / "dist"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    return out


def check(work: Work, log: list[str], *, tree: Path | None = None) -> None:
    """Stop here, with the reason, where the configuration (of ``tree``) is not what was planned."""
    place = tree or work.front.build_tree
    summary = text_at(place / SUMMARY_FILE).splitlines() or summary_lines(log)
    work.facts = check_configuration(work.plan, place, summary, log)
    wrong = [fact for fact in work.facts if fact.ok is False]
    work.log.write(f"rekindle: {len(work.facts)} settings planned, {len(wrong)} configured otherwise")
    if not wrong:
        return
    first = wrong[0]
    message = f"{first.name} was planned as {first.wanted} but configured as {first.found or 'nothing'}"
    said = tuple(f"{fact.name}: {fact.where}" for fact in wrong)
    failure = BuildFailure(
        project=work.tree.project, phase="check", message=message, error=said, log=str(work.log.path), facts=work.facts
    )
    # The next run must configure again, once the cause is fixed.
    if (old := load_state(work.front.build_tree)) is not None:
        save_state(work.front.build_tree, msgspec.structs.replace(old, configured=False, running=False))
    raise BuildFailed(message, failure, remedy="fix the cause, or change the plan; nothing was compiled yet")


def check_when_configured(work: Work) -> Callable[[str], None]:
    """Sees every line of a command that configures and compiles in one go; checks as soon as CMake is through."""
    lines: list[str] = []
    written: list[re.Match[str]] = []

    def see(line: str) -> None:
        if written:
            return
        lines.append(line)
        if match := _WRITTEN.match(line):
            written.append(match)
            check(work, lines, tree=Path(match[1].strip()))

    return see


def giants_first(build_tree: Path, learnt: ObjectCosts) -> int:
    """Move statements that take long to the top of ``build.ninja``; how many. A second call changes nothing."""
    path = build_tree / "build.ninja"
    try:
        if path.stat().st_size > MAX_BYTES:
            return 0
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return 0
    statements = _STATEMENT_END.split(text)
    named = ((number, match[1]) for number, text in enumerate(statements) if (match := _OBJECT.match(text)))
    times = {number: learnt.usual(name.replace("$ ", " ").replace("$:", ":")) for number, name in named}
    giants = {number: seconds for number, seconds in times.items() if seconds and seconds >= GIANT_SECONDS}
    if not giants:
        return 0
    first = next(number for number, statement in enumerate(statements) if statement.startswith("build "))
    head, longest_first = range(first), sorted(giants, key=lambda number: -giants[number])
    others = [number for number in range(len(head), len(statements)) if number not in giants]
    moved = "\n".join(statements[number] for number in (*head, *longest_first, *others))
    if moved != text:
        write_atomically(path, moved.encode("utf-8", "surrogateescape"))
    return len(giants)


def render_script(order: BuildOrder) -> Text:
    """What ``build`` would run, as steps for a POSIX shell."""
    tree = order.tree
    plan = plan_for(order.plan, tree)
    if plan.build is None:
        raise BadInput(f"the plan's answer is '{plan.answer}', so there is nothing to build")
    front = find_front_end(Path(tree.root))
    # What the user chose beyond the plan, by the names that CMake and setup.py know.
    jobs, launcher = order.options.jobs, order.options.launcher
    chosen = ({"MAX_JOBS": str(jobs)} if jobs else {}) | (before_each_compiler(launcher, launcher) if launcher else {})
    env = conf.make_environment(plan, {}, path_first=(), extra=chosen, version=wheel_version(plan, tree))
    env.chosen.update(conf.chosen_cuda(LiveHost(), plan, {**plan.build.cmake, **plan.build.env}))
    packages = requirements(plan.build.pins, front.requires, pep517=bool(front.backend))
    if compiles_against_torch(plan.project):
        torch = order.options.against or (f"torch=={plan.torch}" if plan.torch else "torch")
        packages = (*(each for each in packages if not each.startswith("torch")), torch)
    tools = ["ninja>=1.13", *([] if "cmake" in plan.build.pins else ["cmake"])]
    chosen = {name: value for name, value in sorted(env.chosen.items()) if name != "PATH"}
    steps = [Step(kind="cd", folder=tree.root), Step(kind="set", env=chosen)]
    if env.cache_settings and front.kind == "cmake-setup":
        settings = "build/rekindle-settings.cmake"
        steps += [
            Step(kind="run", argv=("mkdir", "-p", "build")),
            Step(kind="write", folder=settings, argv=tuple(conf.render_cache_script(env.cache_settings).splitlines())),
            Step(kind="set", env={"CMAKE_PROJECT_INCLUDE_BEFORE": f"{HERE}/{settings}"}),
        ]
    out = order.workspace.wheels
    for number, python in enumerate(order.pythons):
        interpreter = _interpreter_path(python)
        folder = str(order.workspace.root / "python" / f"script-{number}")
        if not order.options.as_is:
            steps += [Step(kind="run", argv=(interpreter, "-m", "venv", folder)), Step(kind="activate", folder=folder)]
            interpreter = f"{folder}/bin/python"
            steps.append(Step(kind="run", argv=(interpreter, "-m", "pip", "install", *packages, *tools)))
        configure = front.configure(interpreter, again=number > 0, out=out, defines=env.defines)
        if configure and (front.kind != "scikit" or order.options.targets):
            steps.append(Step(kind="run", argv=tuple(configure), env=front.configure_environment))
        if order.options.targets:
            steps.append(Step(kind="run", argv=("cmake", "--build", "build", "--target", *order.options.targets)))
        else:
            steps.append(Step(kind="run", argv=tuple(front.wheel(interpreter, out, env.defines))))
    return Text(text=shell_script(steps, f"{tree.project} {wheel_version(plan, tree)}, as planned by rekindle."))


def _interpreter_path(python: str) -> str:
    """The interpreter as it is found here; a version that is not here by its usual name."""
    with contextlib.suppress(BadInput):
        return find_build_python(LiveHost(), python).path
    return f"python{python}" if python[:1].isdigit() else python
