"""One build under way: what it carries from phase to phase, and how each external command is run and watched.

On each tick of a command the governor looks at memory; the user sees the build as it is: steps, pace, time left,
memory, the cache, and what compiles just now. A compiler that was killed for memory is retried alone.
"""

import contextlib
import functools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from rekindle.build.failure import BuildLog, account_for, failed_commands, killed_for_memory
from rekindle.build.farm import FarmWork
from rekindle.build.frontend import FrontEnd
from rekindle.build.governor import Governor, Jobs, elastic_jobs
from rekindle.build.history import Estimate, make_estimate
from rekindle.build.launchers import CACHES, Launcher, statistics
from rekindle.build.report import TimedSpan
from rekindle.build.tree import stop_before_full
from rekindle.errors import StageFailed
from rekindle.formats.ninja import file_name
from rekindle.host.process import Running, run_long, stop_signals_as_interrupt
from rekindle.host.protocol import Host
from rekindle.host.text import last_line
from rekindle.host.workspace import Workspace
from rekindle.model.build import Fact
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import Plan
from rekindle.model.progress import BuildView, JobView, Progress, show_build
from rekindle.model.source import SourceTree
from rekindle.toolkits.programs import find_ninja

_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
_OBJECT = re.compile(r"(?:object|library|executable|module) (\S+)")
DISK_EVERY_SECONDS = 5.0
CACHE_EVERY_SECONDS = 15.0
MAX_RETRIES = 3
_KEPT_LINES, _KEPT_LETTERS = 12, 2000
# Of a run in which every job fails none may be forgotten.
_REMEMBERED_LINES = 1_000_000


@dataclass
class Supervisor:
    """Gets every line and every tick of one external command."""

    log: BuildLog
    progress: Progress
    stage: str
    _: KW_ONLY
    governor: Governor | None = None
    estimate: Estimate | None = None
    max_jobs: int = 1
    disk: Path | None = None
    cache: Callable[[], Mapping[str, str]] | None = None
    farm: FarmWork | None = None
    say: Callable[[str], None] = lambda text: None
    watch: Callable[[str], None] = lambda line: None
    done: int = 0
    total: int = 0
    alone: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._begun = self._cache_at = time.monotonic()
        self._disk_at = self._left_at = -math.inf
        self._counted: tuple[int | None, int | None] = (None, None)
        self._left: float | None = None
        self._first_step: float | None = None

    def run_alone(self, outputs: list[str]) -> None:
        """One job at a time until these are made."""
        self.alone = set(outputs)
        if self.governor is not None:
            self.governor.solo = True

    def line(self, line: str) -> None:
        """Take in what the command printed."""
        self.log.write(line)
        if match := _STATUS.match(line):
            self.done, self.total = int(match[1]), int(match[2])
            self._first_step = self._first_step or time.monotonic()
            self.stage = match[3]
            if self.estimate is not None and (named := _OBJECT.search(match[3])):
                self.estimate.finished(named[1])
            self.alone = {output for output in self.alone if output not in match[3]}
            if self.governor is not None and not self.alone:
                self.governor.solo = False
            self._show()
        self.watch(line)

    def tick(self, running: Running) -> float | None:
        """Look at memory, disk and farm; gives the seconds until the next look."""
        wait = self.governor.look(running.pid) if self.governor is not None else None
        now = time.monotonic()
        if self.disk is not None and now - self._disk_at > DISK_EVERY_SECONDS:
            self._disk_at = now
            stop_before_full(self.disk)
        for text in self.farm.news() if self.farm is not None else ():
            self.say(text)
        self._show()
        return wait

    def _show(self) -> None:
        if self.total:
            show_build(self.progress, self.view())
        else:
            self.progress.step(0, None, f"{self.stage[:100]}: {time.monotonic() - self._begun:.0f} s")

    def view(self) -> BuildView:
        """The build as the user sees it now."""
        elapsed = time.monotonic() - self._begun
        jobs = tuple(
            JobView(
                name=file_name(output),
                seconds=seconds,
                bytes=size,
                paused=paused,
                expected=self.estimate.seconds(output) if self.estimate is not None else None,
            )
            for output, seconds, size, paused in (self.governor.jobs() if self.governor is not None else ())
        )
        hits, misses = self._cache_now()
        rate = 60 * self.done / elapsed if self.done and elapsed > 20 else None
        known: dict[str, Any] = {"left": self._time_left(jobs), "jobs": jobs, "hits": hits, "misses": misses}
        if self.farm is not None:
            counts, slots = self.farm.counts, self.farm.status.slots
            known |= {"elsewhere": counts.elsewhere, "here": counts.local, "slots": slots}
        if self.governor is not None and self.governor.samples:
            last = self.governor.samples[-1]
            known |= {"used": last.used, "free": last.available, "running": last.running}
            known |= {"allowed": last.allowed, "paused": last.paused}
        return BuildView(done=self.done, total=self.total, per_minute=rate, **known)

    def _cache_now(self) -> tuple[int | None, int | None]:
        """Asked now and then: it starts the cache's own program."""
        now = time.monotonic()
        if self.cache is not None and now - self._cache_at > CACHE_EVERY_SECONDS:
            self._cache_at = now
            counts = self.cache()
            if counts.get("hits", "").isdigit() and counts.get("misses", "").isdigit():
                self._counted = int(counts["hits"]), int(counts["misses"])
        return self._counted

    def _time_left(self, jobs: Sequence[JobView] = ()) -> float | None:
        """Recounted every few seconds, since it walks the whole graph; between two counts it runs down."""
        now = time.monotonic()
        steps = self.total - self.done
        if self.estimate is not None and now - self._left_at > 10:
            self._left_at = now
            elapsed = now - self._first_step if self._first_step is not None else None
            self._left = self.estimate.left(jobs=self.max_jobs, steps_left=steps, elapsed=elapsed)
        if self._left is None:
            return None
        left = max(0.0, self._left - (now - self._left_at))
        if jobs and steps <= len(jobs):
            # Only what runs already is left, so no more than the longest of it still takes.
            left = min(left, max(max(0.0, (job.expected or 0.0) - job.seconds) for job in jobs))
        return left


def run_supervised(
    argv: list[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    log: BuildLog,
    supervise: Callable[[], Supervisor],
    on_retry: Callable[[list[str]], None] = lambda outputs: None,
) -> tuple[int, int]:
    """Run one command to its end, up to three times more where compilers were killed for memory; its exit code, and how
    many steps it had. ``on_retry`` hears what is made again."""
    steps = 0
    killed: list[str] = []
    for tries_left in reversed(range(MAX_RETRIES + 1)):
        supervisor = supervise()
        if killed:
            supervisor.run_alone(killed)
        log.command(argv, cwd)
        code = run_long(argv, cwd=cwd, env=env, on_line=supervisor.line, tick=supervisor.tick)
        steps = max(steps, supervisor.total)
        by_us = supervisor.governor.killed if supervisor.governor is not None else []
        killed = killed_for_memory(log, by_us) if code else []
        if not killed or not tries_left:
            break
        on_retry(killed)
    return code, steps


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
    farm: FarmWork | None = None
    compilers: dict[str, str] = field(default_factory=dict)
    spans: list[TimedSpan] = field(default_factory=list)
    resumed: bool = False
    steps: int = 0
    retried: list[str] = field(default_factory=list)
    facts: tuple[Fact, ...] = ()
    toolchain: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def compiled_where(self) -> dict[str, str]:
        """Objects by file name → who compiled them, on a farm."""
        if self.farm is None:
            return {}
        placed = [job for job in self.farm.compilations() if job.where is not None]
        return {job.object: self.farm.farm.name_of(job.where) if job.where else "here" for job in placed}

    def note(self, text: str) -> None:
        """A sentence for the screen, the log and the result."""
        self.notes.append(text)
        self.progress.note(text)
        self.log.write(f"rekindle: {text}")

    @contextlib.contextmanager
    def phase(self, name: str, detail: str = "") -> Iterator[None]:
        """A part of the build: told, and timed however it ends."""
        begun, at = time.monotonic(), time.time()
        self.progress.stage(name, detail)
        self.log.write(f"== {name} {detail}".rstrip())
        try:
            yield
        finally:
            self.spans.append(TimedSpan(name=name, begun=at, seconds=time.monotonic() - begun))

    def run(
        self, phase: str, argv: list[str], env: dict[str, str], *, watch: Callable[[str], None] = lambda line: None
    ) -> None:
        """Run one command; a compiler that was killed for memory is retried alone. ``watch`` sees each line."""

        def tell(outputs: list[str]) -> None:
            self.retried += outputs
            self.note(f"killed for memory: {', '.join(outputs)}; retrying alone")

        code, steps = run_supervised(
            argv, self.front.root, env, log=self.log, supervise=lambda: self._supervisor(phase, watch), on_retry=tell
        )
        self.steps = max(self.steps, steps)
        if code:
            raise account_for(self.tree.project, phase, argv, code, self.log)

    def _supervisor(self, phase: str, watch: Callable[[str], None]) -> Supervisor:
        supervise = functools.partial(Supervisor, self.log, self.progress, phase, watch=watch)
        if self.jobs is None:
            return supervise()
        cache = self.launcher
        return supervise(
            governor=self.jobs.governor,
            estimate=make_estimate(self.front.ninja_tree, self.jobs.learnt),
            max_jobs=self.jobs.max_jobs,
            disk=self.front.build_tree,
            cache=functools.partial(statistics, self.host, cache) if cache and cache.name in CACHES else None,
            farm=self.farm,
            say=self.note,
        )


def run_ninja(
    folder: Path, workspace: Workspace, options: BuildOptions, progress: Progress, host: Host, more: Mapping[str, str]
) -> Mapping[str, str]:
    """Run ``build.ninja`` in ``folder``; output -> why it failed. Cut short, the same call continues. ``more`` joins
    the environment of the jobs (a compiler cache's settings)."""
    ninja = find_ninja(host, options.ninja)
    history = workspace.cache / "history-graft.json"
    with (
        stop_signals_as_interrupt(),
        contextlib.closing(BuildLog(workspace.new_log("graft"), keep=_REMEMBERED_LINES)) as log,
        elastic_jobs(options, ninja, history, str(folder)) as jobs,
    ):
        env = {**host.env, **more, **jobs.env, "NINJA_STATUS": "[%f/%t] "}
        argv = [ninja.path, "-k", "0"]
        if "MAKEFLAGS" not in jobs.env:
            argv += ["-j", str(jobs.max_jobs)]
        supervise = functools.partial(
            Supervisor, log, progress, "compile", governor=jobs.governor, max_jobs=jobs.max_jobs, disk=folder
        )
        code, _ = run_supervised(argv, folder, env, log=log, supervise=supervise)
        if not code:
            return {}
        if not (failures := failed_commands(log)):
            last = last_line("\n".join(log.recent))
            raise StageFailed(f"Ninja ended with exit code {code}: {last[:200]}", remedy=f"its log: {log.path}")
        printed = {each.outputs[0]: [line.strip() for line in each.printed if line.strip()] for each in failures}
        return {
            name: " ".join(lines[:_KEPT_LINES])[:_KEPT_LETTERS] or "its tool failed" for name, lines in printed.items()
        }
