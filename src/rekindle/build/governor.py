"""Looks at the running build a few times a second and carries out what :mod:`elastic` decides.

Jobs are the children of Ninja: whole subtrees, since ``g++`` is a shell's child and ``cc1plus`` a child of
``g++``. Their object is read from the command line once, their peak from the kernel each time.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

from rekindle.build.elastic import CompilerJob, JobDecision, Situation, decide, foretell
from rekindle.build.history import Learnt
from rekindle.host import processes
from rekindle.host.jobserver import Jobserver
from rekindle.host.memory import MemoryNow, read_memory
from rekindle.host.processes import Proc

_OUTPUT = re.compile(r"""(?:^|\s)(?:-o\s*|/Fo:?\s*)("[^"]+"|'[^']+'|\S+)""")
MAX_SAMPLES = 4000
TIGHT_SECONDS = 0.1
CALM_SECONDS = 0.25


@dataclass(kw_only=True)
class FollowedJob:
    """A job as followed over its life."""

    key: int
    output: str
    born: float
    begun: float
    peak: int = 0
    before: tuple[float, int] = (0.0, 0)
    expected: int = 0
    paused_at: float | None = None
    pids: list[int] = field(default_factory=list)
    marked: set[int] = field(default_factory=set)


@dataclass(frozen=True)
class Sample:
    seconds: float
    used: int
    available: int
    running: int
    paused: int
    allowed: int


class Governor:
    """``budget`` bounds the sum of all processes of the build; ``solo`` lets one job run at a time; ``watch_only``
    leaves every decision to a governor above."""

    def __init__(
        self,
        jobserver: Jobserver | None,
        learnt: Learnt,
        *,
        max_jobs: int,
        budget: int | None = None,
        watch_only: bool = False,
    ) -> None:
        self._watch_only = watch_only
        self._jobserver = jobserver
        self._learnt = learnt
        self._max_jobs = max_jobs
        self._budget = budget
        self._seen: dict[int, FollowedJob] = {}
        self._begun = time.monotonic()
        self.solo = False
        self.peak_bytes = 0
        self.pauses = 0
        self.killed: list[str] = []
        self.samples: list[Sample] = []
        self.limited_by = "machine"
        self.interval = CALM_SECONDS
        self._keep_every = 1
        self._ticks = 0

    def tick(self, root: int) -> JobDecision | None:
        """Look, decide, act; afterwards ``interval`` says when to look again."""
        begun = time.thread_time()
        decision = self._tick(root)
        cost = time.thread_time() - begun
        paused = any(seen.paused_at is not None for seen in self._seen.values())
        tight = decision is not None and (decision.pause or decision.resume or paused)
        # Often where it is tight, but never for more than a fiftieth of one core.
        self.interval = min(2.0, max(TIGHT_SECONDS if tight else CALM_SECONDS, 50 * cost))
        return decision

    def look(self, root: int) -> float:
        """One tick; the seconds until the next."""
        self.tick(root)
        return self.interval

    def _tick(self, root: int) -> JobDecision | None:
        tree = processes.tree_of(root)
        memory = read_memory()
        used = sum(process.rss for process in tree)
        self.peak_bytes = max(self.peak_bytes, used)
        now = time.monotonic()
        self._follow(tree, now)
        if memory is None:
            return None
        if self._watch_only:
            self._sample(now, used, memory.available)
            return None
        available, total = self._bounds(memory, used)
        decision = decide(
            Situation(
                available=available,
                total=total,
                jobs=tuple(self._job(seen, now) for seen in self._seen.values()),
                max_jobs=1 if self.solo else self._max_jobs,
                typical=self._learnt.typical(),
                pressure=memory.pressure if self._budget is None else 0.0,
            )
        )
        self._carry_out(decision, now)
        self._sample(now, used, available)
        return decision

    def _bounds(self, memory: MemoryNow, used: int) -> tuple[int, int]:
        """Free bytes and total of the tightest bound: the machine's, the control group's or the user's."""
        self.limited_by = memory.limited_by
        if self._budget is None or self._budget - used > memory.available:
            return memory.available, memory.total
        self.limited_by = "--memory"
        return max(0, self._budget - used), min(self._budget, memory.total)

    def _job(self, seen: FollowedJob, now: float) -> CompilerJob:
        rss = self._rss.get(seen.key, 0)
        known = self._learnt.expected(seen.output)
        if seen.paused_at is None:
            # While it waits it does not grow, which says nothing: what was foretold when it was stopped stays.
            seen.expected = foretell(
                known,
                rss,
                rss - seen.before[1],
                now - seen.before[0],
                learnt=self._learnt.peak(seen.output) is not None,
            )
        if seen.peak >= known * 0.8 and rss < seen.peak // 4:
            # It has had its peak and is letting go: on its way out, it will not grow again.
            seen.expected = rss
        seen.before = (now, rss)
        paused = seen.paused_at is not None
        waited = now - seen.paused_at if seen.paused_at is not None else 0.0
        return CompilerJob(
            key=seen.key, started=seen.born, rss=rss, expected=seen.expected, paused=paused, waited=waited
        )

    def _follow(self, tree: list[Proc], now: float) -> None:
        children = processes.by_parent(tree)
        self._rss: dict[int, int] = {}
        for root in job_roots(tree, children):
            family = [root, *processes.below(root.pid, children)]
            seen = self._seen.get(root.pid)
            if seen is None:
                seen = self._seen[root.pid] = FollowedJob(
                    key=root.pid, output=_output(root.pid), born=root.started, begun=now, before=(now - 1.0, 0)
                )
            seen.pids = [process.pid for process in family]
            self._rss[root.pid] = rss = sum(process.rss for process in family)
            largest = max(family, key=lambda process: process.rss)
            # The kernel's own high-water mark catches what lies between two looks.
            seen.peak = max(seen.peak, rss, processes.peak_rss(largest.pid))
            for pid in set(seen.pids) - seen.marked:
                processes.prefer_as_victim(pid)
                seen.marked.add(pid)
        for key in [key for key in self._seen if key not in self._rss]:
            gone = self._seen.pop(key)
            if gone.output and gone.peak:
                self._learnt.record(gone.output, gone.peak, now - gone.begun)

    def _carry_out(self, decision: JobDecision, now: float) -> None:
        for key in decision.kill:
            self.killed.append(self._seen[key].output)
            processes.kill(self._seen[key].pids)
        for key in decision.pause:
            self._seen[key].paused_at = now
            self.pauses += 1
            processes.pause(self._seen[key].pids)
        for key in decision.resume:
            self._seen[key].paused_at = None
            processes.go_on(self._seen[key].pids)
        for seen in self._seen.values():
            if seen.paused_at is not None and seen.key not in decision.pause:
                # A shell that was stopped between fork and exec may have left a child running.
                processes.pause(seen.pids)
        if self._jobserver is not None:
            self._jobserver.set_level(max(0, decision.jobs - 1))

    def _sample(self, now: float, used: int, available: int) -> None:
        self._ticks += 1
        if self._ticks % self._keep_every:
            return
        paused = sum(1 for seen in self._seen.values() if seen.paused_at is not None)
        allowed = self._jobserver.level + 1 if self._jobserver else self._max_jobs
        self.samples.append(Sample(now - self._begun, used, available, len(self._seen) - paused, paused, allowed))
        if len(self.samples) > MAX_SAMPLES:
            self.samples = self.samples[::2]
            self._keep_every *= 2

    def jobs(self) -> list[tuple[str, float, int, bool]]:
        """What compiles now, the longest first: its object, seconds, bytes, and whether it is paused."""
        now = time.monotonic()
        oldest = sorted((seen for seen in self._seen.values() if seen.output), key=lambda seen: seen.begun)
        return [(seen.output, now - seen.begun, seen.before[1], seen.paused_at is not None) for seen in oldest]

    @property
    def running(self) -> int:
        return sum(1 for seen in self._seen.values() if seen.paused_at is None)


def job_roots(tree: list[Proc], children: dict[int, list[Proc]]) -> list[Proc]:
    """Children of Ninja (or make) that do not themselves contain another one."""
    drivers = {process.pid for process in tree if is_driver(process.name)}
    roots = []
    for process in tree:
        if process.parent in drivers and process.pid not in drivers:
            below = processes.below(process.pid, children)
            if not any(other.pid in drivers for other in below):
                roots.append(process)
    return roots


def is_driver(name: str) -> bool:
    return name.removesuffix(".exe") in ("ninja", "ninja-build", "make", "gmake", "samu")


def _output(pid: int) -> str:
    """The object a job makes, from its command line."""
    found = _OUTPUT.search(" ".join(processes.command_line(pid)))
    return found[1].strip("\"'") if found else ""
