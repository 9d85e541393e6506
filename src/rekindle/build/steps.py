"""The steps of a build: its environment, configure with the check of what came out, compile."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from rekindle.build import state, tools
from rekindle.build.assertwanted import SUMMARY_FILE, check_configuration, summary_lines
from rekindle.build.environment import ZIP_EPOCH, BuildEnvironment, make_environment, prefix_map, render_cache_script
from rekindle.build.failure import account_for
from rekindle.build.launchers import without_masquerades
from rekindle.build.target import TargetPython
from rekindle.build.work import Work
from rekindle.errors import BuildFailed
from rekindle.host.files import write_atomically
from rekindle.model.build import BuildFailure


def environment(
    work: Work, target: TargetPython, cmake: tools.Tool, ninja: tools.Tool, *, own_paths: bool
) -> BuildEnvironment:
    """``own_paths``: the compilers can keep the tree's place out of what they make."""
    shell = dict(work.host.env)
    shell["PATH"], disguised = without_masquerades(shell.get("PATH", ""))
    for folder in disguised:
        work.note(f"left {folder} out of PATH: its compilers are a cache in disguise (--launcher does that openly)")
    env = make_environment(
        work.plan,
        shell,
        path_first=[*tools.gather(work.workspace.root / "tools", cmake, ninja), target.bin],
        extra=work.launcher.env if work.launcher else {},
        version=work.version,
        epoch=ZIP_EPOCH,
        project=work.tree.project,
    )
    if env.dropped:
        work.note(f"not taken from your shell: {', '.join(env.dropped)}")
    flag = prefix_map(work.front.root) if own_paths else None
    if work.front.kind == "cmake-setup" and (env.cache_settings or flag):
        script = work.front.build_tree / "rekindle-settings.cmake"
        text = render_cache_script(env.cache_settings, flag)
        if not script.is_file() or script.read_text(encoding="utf-8") != text:
            write_atomically(script, text)
        env.full["CMAKE_PROJECT_INCLUDE_BEFORE"] = env.chosen["CMAKE_PROJECT_INCLUDE_BEFORE"] = str(script)
    if flag:
        # For what setuptools compiles itself; CMake is configured without it.
        env.after_configure["CFLAGS"] = f"{env.chosen.get('CFLAGS', '')} {flag}".strip()
    return env


def configure(
    work: Work, target: TargetPython, env: BuildEnvironment, now: state.TreeState, before: state.TreeState | None
) -> state.TreeState:
    """Configure unless this tree already is configured for this Python; then check what came out."""
    tree = work.front.build_tree
    done = before is not None and before.configured and before.python == target.python
    work.resumed = done
    runs = (before.runs if before else 0) + 1
    started = msgspec.structs.replace(now, running=True, runs=runs, configured=done, python=target.python)
    state.save_state(tree, started)
    argv = work.front.configure(target.python, again=before is not None and not done)
    log: list[str] = []
    if argv is not None and not done:
        with work.phase("configure"):
            work.run("configure", argv, {**env.full, **work.front.configure_environment})
        log = list(work.log.recent)
        write_atomically(tree / SUMMARY_FILE, "\n".join(summary_lines(log)))
    if argv is not None:
        check(work, log)
    configured = msgspec.structs.replace(started, configured=True)
    state.save_state(tree, configured)
    return configured


def check(work: Work, log: list[str]) -> None:
    """Stop here, with the reason, where the configuration is not what was planned."""
    tree = work.front.build_tree
    try:
        summary = (tree / SUMMARY_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        summary = []
    work.facts = check_configuration(work.plan, tree, summary, log)
    wrong = [fact for fact in work.facts if fact.ok is False]
    work.log.write(f"rekindle: {len(work.facts)} settings planned, {len(wrong)} configured otherwise")
    if not wrong:
        return
    first = wrong[0]
    message = f"{first.name} was planned as {first.wanted} but configured as {first.found or 'nothing'}"
    failure = BuildFailure(
        project=work.tree.project,
        phase="check",
        message=message,
        error=tuple(f"{fact.name}: {fact.where}" for fact in wrong if fact.where),
        log=str(work.log.path),
        facts=work.facts,
    )
    # The next run must configure again, once the cause is mended.
    old = state.load_state(tree)
    if old is not None:
        state.save_state(tree, msgspec.structs.replace(old, configured=False, running=False))
    raise BuildFailed(message, failure, remedy="mend the cause, or change the plan; nothing was compiled yet")


def compile_tree(work: Work, target: TargetPython, cmake: tools.Tool, env: BuildEnvironment) -> Path | None:
    """The wheel the tree's own front end makes; None where only a target was wanted."""
    if work.options.target:
        argv = [cmake.path, "--build", str(work.front.build_tree), "--target", work.options.target]
        work.run("compile", argv, env.full)
        return None
    out = work.workspace.build / "dist"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    work.run("compile", work.front.wheel(target.python, out), {**env.full, **env.after_configure})
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        error = account_for(work.tree.project, "compile", [], 0, work.log)
        raise BuildFailed(f"the build ended well but left {len(wheels)} wheels instead of one", error.failure)
    return wheels[0]
