"""Watches one external command of a build: its lines, its progress, its memory, and what it was killed for.

On each tick the governor looks at memory; the user sees the build as it is: steps, pace, time left, memory, the cache,
and what compiles just now.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rekindle.build.estimate import Estimate
from rekindle.build.governor import Governor
from rekindle.build.log import BuildLog
from rekindle.build.resume import stop_before_full
from rekindle.host.process import Running
from rekindle.model.progress import BuildView, JobView, Progress, show_build

_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
_OBJECT = re.compile(r"(?:object|library|executable|module) (\S+)")
DISK_EVERY_SECONDS = 5.0
CACHE_EVERY_SECONDS = 15.0


class Supervisor:
    """Gets every line and every tick of one external command."""

    def __init__(
        self,
        log: BuildLog,
        progress: Progress,
        stage: str,
        *,
        governor: Governor | None = None,
        estimate: Estimate | None = None,
        max_jobs: int = 1,
        disk: Path | None = None,
        cache: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self._log = log
        self._progress = progress
        self._governor = governor
        self._estimate = estimate
        self._max_jobs = max_jobs
        self._disk = disk
        self._disk_at = 0.0
        self._cache = cache
        self._cache_at = time.monotonic()
        self._counted: tuple[int | None, int | None] = (None, None)
        self._begun = time.monotonic()
        self._detail = stage
        self._left: float | None = None
        self._left_at = 0.0
        self._first_step: float | None = None
        self.done = 0
        self.total = 0
        self.alone: set[str] = set()

    def run_alone(self, outputs: list[str]) -> None:
        """One job at a time until these are made."""
        self.alone = set(outputs)
        if self._governor is not None:
            self._governor.solo = True

    def line(self, line: str) -> None:
        self._log.write(line)
        match = _STATUS.match(line)
        if not match:
            return
        self.done, self.total = int(match[1]), int(match[2])
        if self._first_step is None:
            self._first_step = time.monotonic()
        self._detail = match[3]
        named = _OBJECT.search(match[3])
        if named and self._estimate is not None:
            self._estimate.finished(named[1])
        self.alone = {output for output in self.alone if output not in match[3]}
        if self._governor is not None and self._governor.solo and not self.alone:
            self._governor.solo = False
        self._show()

    def tick(self, running: Running) -> float | None:
        wait = self._governor.look(running.pid) if self._governor is not None else None
        now = time.monotonic()
        if self._disk is not None and now - self._disk_at > DISK_EVERY_SECONDS:
            self._disk_at = now
            stop_before_full(self._disk)
        self._show()
        return wait

    def _show(self) -> None:
        if not self.total:
            self._progress.step(0, None, f"{self._detail[:100]}: {time.monotonic() - self._begun:.0f} s")
            return
        show_build(self._progress, self.view())

    def view(self) -> BuildView:
        """The build as it is now."""
        elapsed = time.monotonic() - self._begun
        last = self._governor.samples[-1] if self._governor is not None and self._governor.samples else None
        jobs = tuple(
            JobView(
                name=output.replace("\\", "/").rsplit("/", 1)[-1],
                seconds=seconds,
                bytes=size,
                paused=paused,
                expected=self._estimate.seconds(output) if self._estimate is not None else None,
            )
            for output, seconds, size, paused in (self._governor.jobs() if self._governor is not None else ())
        )
        hits, misses = self._cache_now()
        view = BuildView(
            done=self.done,
            total=self.total,
            per_minute=60 * self.done / elapsed if self.done and elapsed > 20 else None,
            left=self._time_left(jobs),
            jobs=jobs,
            hits=hits,
            misses=misses,
        )
        if last is None:
            return view
        view = dataclasses.replace(view, used=last.used, free=last.available)
        return dataclasses.replace(view, running=last.running, allowed=last.allowed, paused=last.paused)

    def _cache_now(self) -> tuple[int | None, int | None]:
        """Asked now and then: it starts the cache's own program."""
        now = time.monotonic()
        if self._cache is not None and now - self._cache_at > CACHE_EVERY_SECONDS:
            self._cache_at = now
            said = self._cache()
            if said.get("hits", "").isdigit() and said.get("misses", "").isdigit():
                self._counted = int(said["hits"]), int(said["misses"])
        return self._counted

    def _time_left(self, jobs: Sequence[JobView] = ()) -> float | None:
        """Recounted every few seconds, since it walks the whole graph; between two counts it runs down."""
        now = time.monotonic()
        if self._estimate is None:
            return None
        steps = self.total - self.done
        if now - self._left_at > 10:
            self._left_at = now
            elapsed = now - self._first_step if self._first_step is not None else None
            self._left = self._estimate.left(jobs=self._max_jobs, steps_left=steps, elapsed=elapsed)
        if self._left is None:
            return None
        left = max(0.0, self._left - (now - self._left_at))
        if jobs and steps <= len(jobs):
            # Only what runs already is left, so no more than the longest of it still takes.
            left = min(left, max(max(0.0, (job.expected or 0.0) - job.seconds) for job in jobs))
        return left
