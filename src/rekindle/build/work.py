"""Everything one build carries from phase to phase, and how it runs an external command."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rekindle.build.estimate import make_estimate
from rekindle.build.failure import account_for, killed_for_memory
from rekindle.build.frontend import FrontEnd
from rekindle.build.jobs import Jobs
from rekindle.build.launchers import CACHES, Launcher, statistics
from rekindle.build.log import BuildLog
from rekindle.build.supervise import Supervisor
from rekindle.host.process import run_long
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.model.build import Fact, Phase
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import Plan
from rekindle.model.progress import Progress
from rekindle.model.source import SourceTree

MAX_RETRIES = 3


@dataclass(kw_only=True)
class Work:
    """What is to be built, with what, and what has become of it so far."""

    plan: Plan
    tree: SourceTree
    workspace: Workspace
    options: BuildOptions
    progress: Progress
    host: Host
    log: BuildLog
    front: FrontEnd
    version: str
    editable: bool = False
    jobs: Jobs | None = None
    launcher: Launcher | None = None
    resumed: bool = False
    steps: int = 0
    retried: list[str] = field(default_factory=list)
    facts: tuple[Fact, ...] = ()
    phases: list[Phase] = field(default_factory=list)
    toolchain: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """A sentence for the screen, the log and the result."""
        self.notes.append(text)
        self.progress.note(text)
        self.log.write(f"rekindle: {text}")

    @contextlib.contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """A part of the build: told, and timed however it ends."""
        begun = time.monotonic()
        self.progress.stage(name, detail)
        self.log.write(f"== {name} {detail}".rstrip())
        try:
            yield
        finally:
            self.phases.append(Phase(name=name, seconds=round(time.monotonic() - begun, 3)))

    def run(
        self, phase: str, argv: list[str], env: dict[str, str], *, watch: Callable[[str], None] | None = None
    ) -> None:
        """Run one command; a compiler that was killed for memory is retried alone. ``watch`` sees each line."""
        failed: list[str] = []
        for attempt in range(MAX_RETRIES + 1):
            supervisor = self._supervisor(phase)
            if attempt:
                supervisor.run_alone(failed)
            self.log.command(argv, self.front.root)

            def seen(line: str, supervisor: Supervisor = supervisor) -> None:
                supervisor.line(line)
                if watch is not None:
                    watch(line)

            ended = run_long(argv, cwd=self.front.root, env=env, on_line=seen, tick=supervisor.tick)
            self.steps = max(self.steps, supervisor.total)
            if ended.ok:
                return
            failed = killed_for_memory(self.log, self.jobs.governor.killed if self.jobs else [])
            if not failed or attempt == MAX_RETRIES:
                raise account_for(self.tree.project, phase, argv, ended.code, self.log)
            self.retried += failed
            self.note(f"killed for memory: {', '.join(failed)}; retrying alone")

    def _supervisor(self, phase: str) -> Supervisor:
        if self.jobs is None:
            return Supervisor(self.log, self.progress, phase)
        cache = self.launcher
        return Supervisor(
            self.log,
            self.progress,
            phase,
            governor=self.jobs.governor,
            estimate=make_estimate(self.front.ninja_tree, self.jobs.learnt),
            max_jobs=self.jobs.max_jobs,
            disk=self.front.build_tree,
            cache=functools.partial(statistics, self.host, cache) if cache and cache.name in CACHES else None,
        )
