"""A Ninja file that somebody else wrote, run as a build is: jobserver, memory governor, log, orderly stop.

Every job is tried; what failed is told with the first lines its tool said.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rekindle.build.failure import failed_commands, killed_for_memory
from rekindle.build.jobs import elastic_jobs
from rekindle.build.log import BuildLog
from rekindle.build.supervise import Supervisor
from rekindle.build.work import MAX_RETRIES
from rekindle.errors import StageFailed
from rekindle.host.process import run_long, stop_signals_as_interrupt
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.progress import Progress
from rekindle.toolkits.programs import find_ninja

_KEPT_LINES, _KEPT_LETTERS = 12, 2000
# Of a run in which every job fails none may be forgotten.
_REMEMBERED_LINES = 1_000_000


def run_ninja(
    folder: Path,
    workspace: Workspace,
    options: BuildOptions,
    progress: Progress,
    host: Host,
    more: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """Run ``build.ninja`` in ``folder``; output -> why it failed. Cut short, the same call continues. ``more`` joins
    the environment of the jobs (a compiler cache's settings)."""
    ninja = find_ninja(host, options.ninja)
    history = workspace.cache / "history-graft.json"
    with (
        stop_signals_as_interrupt(),
        BuildLog(workspace.new_log("graft"), keep=_REMEMBERED_LINES) as log,
        elastic_jobs(options, ninja, history, str(folder)) as jobs,
    ):
        env = {**host.env, **(more or {}), **jobs.env, "NINJA_STATUS": "[%f/%t] "}
        argv = [ninja.path, "-k", "0"]
        if "MAKEFLAGS" not in jobs.env:
            argv += ["-j", str(jobs.max_jobs)]
        failed: list[str] = []
        for attempt in range(MAX_RETRIES + 1):
            supervisor = Supervisor(
                log, progress, "compile", governor=jobs.governor, max_jobs=jobs.max_jobs, disk=folder
            )
            if attempt:
                supervisor.run_alone(failed)
            log.command(argv, folder)
            ended = run_long(argv, cwd=folder, env=env, on_line=supervisor.line, tick=supervisor.tick)
            if ended.ok:
                return {}
            failed = killed_for_memory(log, jobs.governor.killed)
            if not failed:
                break
        failures = failed_commands(log)
        if not failures:
            last = next((line for line in reversed(log.recent) if line.strip()), "")
            raise StageFailed(f"Ninja ended with exit code {ended.code}: {last[:200]}", remedy=f"its log: {log.path}")
        said = {each.outputs[0]: [line.strip() for line in each.said if line.strip()] for each in failures}
        return {
            name: " ".join(lines[:_KEPT_LINES])[:_KEPT_LETTERS] or "its tool failed" for name, lines in said.items()
        }
