"""Looks at the running build a few times a second and carries out what :mod:`elastic` decides; opens the jobserver it
steers by, or says why a fixed number of jobs must do.

Jobs are the children of Ninja: whole subtrees, since ``g++`` is a shell's child and ``cc1plus`` a child of
``g++``. Their object is read from the command line once, their peak from the kernel each time.
"""

import contextlib
import dataclasses
import os
import re
import time
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NamedTuple

from rekindle.build.elastic import CompilerJob, JobDecision, Situation, decide, foretell
from rekindle.build.frontend import BY_JOBSERVER
from rekindle.build.history import ObjectCosts, kept_history
from rekindle.host import processes
from rekindle.host.jobserver import Jobserver, open_jobserver
from rekindle.host.memory import read_memory
from rekindle.host.processes import Proc, cores
from rekindle.model.build_options import BuildOptions
from rekindle.toolkits.programs import Tool

_OUTPUT = re.compile(r"""(?:^|\s)(?:-o\s*|/Fo:?\s*)("[^"]+"|'[^']+'|\S+)""")
_DRIVERS = ("ninja", "ninja-build", "make", "gmake", "samu")
# What Ninja starts behind --launcher sccache and --farm: a client that waits for its server, 8 MiB resident.
CLIENT_NAME = "sccache"
CLIENT_BYTES = 64 << 20
MAX_SAMPLES = 4000
TIGHT_SECONDS = 0.1
CALM_SECONDS = 0.25
# The MAKEFLAGS of a jobserver that several builds share; whoever opened it governs them all.
SHARED_JOBSERVER = "REKINDLE_SHARED_JOBSERVER"
# Since then Ninja asks a jobserver.
JOBSERVER_NINJA = (1, 13)
# How torch's setup.py and CMake are given a number of jobs.
FIXED = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


@dataclass(kw_only=True)
class FollowedJob(CompilerJob):
    """A job as followed over its life; ``looked`` is when its size was read last. A job of Ninja's may only ``wait``
    for sccache; what sccache's own server compiles here is nobody's but memory's (``of_server``)."""

    output: str
    begun: float
    looked: float
    peak: int = 0
    paused_at: float = 0.0
    pids: list[int] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)
    waits: bool = False
    of_server: bool = False


class Sample(NamedTuple):
    """How it stood at one moment since the beginning: bytes, and numbers of jobs."""

    seconds: float
    used: int
    available: int
    running: int
    paused: int
    allowed: int


@dataclass
class Governor:
    """``budget`` bounds the sum of all processes of the build; ``solo`` lets one job run at a time; ``watch_only``
    leaves every decision to a governor above. ``server`` is a process outside the build that compiles for it
    (sccache's): its children count as the build's. ``max_jobs`` may change while a farm's workers come and go."""

    jobserver: Jobserver | None
    learnt: ObjectCosts
    _: KW_ONLY
    max_jobs: int
    budget: int | None = None
    watch_only: bool = False
    server: int | None = None
    solo: bool = False
    peak_bytes: int = 0
    pauses: int = 0
    killed: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    limited_by: str = "machine"
    interval: float = CALM_SECONDS

    def __post_init__(self) -> None:
        self._jobs: dict[int, FollowedJob] = {}
        self._begun = time.monotonic()
        self._keep_every, self._ticks = 1, 0

    def tick(self, root: int) -> JobDecision | None:
        """Look, decide, act; afterwards ``interval`` says when to look again."""
        begun = time.thread_time()
        decision = self._tick(root)
        cost = time.thread_time() - begun
        paused = any(job.paused for job in self._jobs.values())
        tight = decision is not None and (decision.pause or decision.resume or paused)
        # Often where it is tight, but never for more than a fiftieth of one core.
        self.interval = min(2.0, max(TIGHT_SECONDS if tight else CALM_SECONDS, 50 * cost))
        return decision

    def look(self, root: int) -> float:
        """The same; gives the seconds until it must look again."""
        self.tick(root)
        return self.interval

    def _tick(self, root: int) -> JobDecision | None:
        tree = processes.tree_of(root)
        if self.server is not None:
            tree += processes.tree_of(self.server)
        memory = read_memory()
        used = sum(process.rss for process in tree)
        self.peak_bytes = max(self.peak_bytes, used)
        now = time.monotonic()
        self._follow(tree, now)
        if memory is None:
            return None
        if self.watch_only:
            self._sample(now, used, memory.available)
            return None
        # The tightest bound: the machine's, the control group's or the user's.
        available, total, self.limited_by = memory.available, memory.total, memory.limited_by
        if self.budget is not None and self.budget - used <= available:
            available, total, self.limited_by = max(0, self.budget - used), min(self.budget, total), "--memory"
        waiting = sum(job.waits for job in self._jobs.values())
        served = sum(job.of_server for job in self._jobs.values())
        situation = Situation(
            available=available,
            total=total,
            jobs=tuple(job for job in self._jobs.values() if not job.waits),
            max_jobs=1 if self.solo else max(1, self.max_jobs - waiting + served),
            # Behind sccache a new job is its small client; what it compiles here is seen when it starts.
            typical=CLIENT_BYTES if self.server is not None else self.learnt.typical(),
            pressure=memory.pressure if self.budget is None else 0.0,
        )
        decision = decide(situation)
        if waiting or served:
            decision = dataclasses.replace(decision, jobs=max(1, decision.jobs + waiting - served))
        self._carry_out(decision, now)
        self._sample(now, used, available)
        return decision

    def _follow(self, tree: list[Proc], now: float) -> None:
        children = processes.by_parent(tree)
        there = set()
        for root in job_roots(tree, children, self.server):
            there.add(root.pid)
            family = [root, *processes.below(root.pid, children)]
            if (job := self._jobs.get(root.pid)) is None:
                match = _OUTPUT.search(" ".join(processes.command_line(root.pid)))
                output = match[1].strip("\"'") if match else ""
                job = self._jobs[root.pid] = FollowedJob(
                    key=root.pid, started=root.started, rss=0, expected=0, output=output, begun=now, looked=now - 1.0
                )
            job.waits = any(process.name == CLIENT_NAME for process in family)
            job.of_server = self.server is not None and root.parent == self.server
            job.pids = [process.pid for process in family]
            rss = sum(process.rss for process in family)
            largest = max(family, key=lambda process: process.rss)
            # The kernel's own high-water mark catches what lies between two looks.
            job.peak = max(job.peak, rss, processes.peak_rss(largest.pid))
            self._foresee(job, rss, now)
            for pid in set(job.pids) - job.marked:
                processes.prefer_as_victim(pid)
                job.marked.add(pid)
        for key in [key for key in self._jobs if key not in there]:
            gone = self._jobs.pop(key)
            if gone.output and gone.peak and not gone.waits:
                self.learnt.record(gone.output, gone.peak, now - gone.begun)

    def _foresee(self, job: FollowedJob, rss: int, now: float) -> None:
        """What it has now, how long it waits, and what it will need."""
        usual = self.learnt.expected(job.output)
        learnt = self.learnt.peak(job.output) is not None
        if not job.paused:
            # While it waits it does not grow, which says nothing: what was foretold when it was stopped stays.
            job.expected = foretell(usual, rss, rss - job.rss, now - job.looked, learnt=learnt)
        if job.waits:
            job.expected = rss
        if job.peak >= usual * 0.8 and rss < job.peak // 4:
            # It has had its peak and is letting go: on its way out, it will not grow again.
            job.expected = rss
        job.rss, job.looked = rss, now
        job.waited = now - job.paused_at if job.paused else 0.0

    def _carry_out(self, decision: JobDecision, now: float) -> None:
        for key in decision.kill:
            self.killed.append(self._jobs[key].output)
            processes.kill(self._jobs[key].pids)
        self.pauses += len(decision.pause)
        for key in decision.pause:
            self._jobs[key].paused, self._jobs[key].paused_at = True, now
        for key in decision.resume:
            self._jobs[key].paused = False
            processes.go_on(self._jobs[key].pids)
        for job in self._jobs.values():
            if job.paused:
                # Every time: a shell that was stopped between fork and exec may have left a child running.
                processes.pause(job.pids)
        if self.jobserver is not None:
            self.jobserver.set_level(max(0, decision.jobs - 1))

    def _sample(self, now: float, used: int, available: int) -> None:
        self._ticks += 1
        if self._ticks % self._keep_every:
            return
        paused = sum(job.paused for job in self._jobs.values())
        allowed = self.jobserver.level + 1 if self.jobserver else self.max_jobs
        self.samples.append(Sample(now - self._begun, used, available, self.running, paused, allowed))
        if len(self.samples) > MAX_SAMPLES:
            self.samples = self.samples[::2]
            self._keep_every *= 2

    def jobs(self) -> list[tuple[str, float, int, bool]]:
        """What compiles now, the longest first: its object, seconds, bytes, and whether it is paused."""
        now = time.monotonic()
        named = (job for job in self._jobs.values() if job.output and not job.of_server)
        oldest = sorted(named, key=lambda job: job.begun)
        return [(job.output, now - job.begun, job.rss, job.paused) for job in oldest]

    @property
    def running(self) -> int:
        """Ninja's jobs that are not paused."""
        return sum(not job.paused and not job.of_server for job in self._jobs.values())


def job_roots(tree: list[Proc], children: dict[int, list[Proc]], server: int | None = None) -> list[Proc]:
    """Children of Ninja (or make) that do not themselves contain another one, and those of a compiling ``server``."""
    drivers = {process.pid for process in tree if process.name.removesuffix(".exe") in _DRIVERS}
    drivers |= {server} if server else set()
    roots = (process for process in tree if process.parent in drivers and process.pid not in drivers)
    return [root for root in roots if not any(each.pid in drivers for each in processes.below(root.pid, children))]


@dataclass(frozen=True, kw_only=True)
class Jobs:
    """``env`` goes into the build's environment; ``note`` is for the user where there is no jobserver."""

    governor: Governor
    learnt: ObjectCosts
    env: dict[str, str]
    max_jobs: int
    note: str | None = None

    def tell(self, env: dict[str, str], *, chooses: bool) -> None:
        """Put it into a build's environment. Ninja asks no jobserver where it is given a number, so the plan's number,
        which is for builds without us, must go; a setup.py that ``chooses`` one itself is given a word instead."""
        if "MAKEFLAGS" in self.env:
            for name in FIXED:
                env.pop(name, None)
            if chooses:
                env["MAX_JOBS"] = BY_JOBSERVER
        env.update(self.env)


def fixed_jobs(max_jobs: int, available: int | None, typical: int) -> int:
    """For tools that know no jobserver: what fits if every compiler is a large one."""
    return max(1, min(max_jobs, available // typical)) if available else max_jobs


@contextlib.contextmanager
def governed_jobs(history: Path, key: str, max_jobs: int, budget: int | None) -> Iterator[Jobs]:
    """A jobserver and the governor of its compilers, for one build or for several that share it."""
    with kept_history(history) as learnt, contextlib.closing(open_jobserver(key)) as server:
        governor = Governor(server, learnt, max_jobs=max_jobs, budget=budget)
        yield Jobs(governor=governor, learnt=learnt, env={"MAKEFLAGS": server.makeflags}, max_jobs=max_jobs)


@contextlib.contextmanager
def elastic_jobs(
    options: BuildOptions, ninja: Tool, history: Path, key: str, *, farm: int | None = None
) -> Iterator[Jobs]:
    """The jobs of one build. ``farm`` is how many jobs other machines take."""
    most, budget = options.jobs or farm or cores(), options.memory_bytes
    shared = os.environ.get(SHARED_JOBSERVER) if options.jobs is None and options.farm is None else None
    if (knows := ninja.release >= JOBSERVER_NINJA) and not shared:
        with governed_jobs(history, key, most, budget) as jobs:
            yield jobs
        return
    with kept_history(history) as learnt:
        # Who shares a jobserver runs several builds and governs all their compilers: only watch and learn here.
        governor = Governor(None, learnt, max_jobs=most, budget=budget, watch_only=knows)
        if knows and shared:
            yield Jobs(governor=governor, learnt=learnt, env={"MAKEFLAGS": shared}, max_jobs=most)
            return
        memory = read_memory()
        typical = learnt.typical() if options.farm is None else CLIENT_BYTES
        count = fixed_jobs(most, budget or (memory.available if memory else None), typical)
        note = f"Ninja {ninja.version} knows no jobserver (1.13 does): a fixed number of {count} jobs instead"
        yield Jobs(governor=governor, learnt=learnt, env=dict.fromkeys(FIXED, str(count)), max_jobs=count, note=note)
