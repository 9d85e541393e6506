"""Watches one external command of a build: its lines, its progress, its memory, and what it was killed for.

On each tick the governor looks at memory; the user gets one line: steps, rate, time left, memory, jobs, and
what is slow just now.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from rekindle.build.estimate import Estimate
from rekindle.build.governor import Governor
from rekindle.build.log import BuildLog
from rekindle.build.resume import stop_before_full
from rekindle.host.process import Running
from rekindle.model.progress import Progress

_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
_OBJECT = re.compile(r"(?:object|library|executable|module) (\S+)")
GIB = 1 << 30
DISK_EVERY_SECONDS = 5.0


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
    ) -> None:
        self._log = log
        self._progress = progress
        self._governor = governor
        self._estimate = estimate
        self._max_jobs = max_jobs
        self._disk = disk
        self._disk_at = 0.0
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
        if self._governor is not None:
            self._governor.tick(running.pid)
        now = time.monotonic()
        if self._disk is not None and now - self._disk_at > DISK_EVERY_SECONDS:
            self._disk_at = now
            stop_before_full(self._disk)
        self._show()
        return self._governor.interval if self._governor is not None else None

    def _show(self) -> None:
        if not self.total:
            self._progress.step(round(time.monotonic() - self._begun), None, f"s  {self._detail[:100]}")
            return
        self._progress.step(self.done, self.total, "  ".join(self._words()))

    def _words(self) -> list[str]:
        elapsed = time.monotonic() - self._begun
        words = [f"{self.done}/{self.total}"]
        if self.done and elapsed > 20:
            words.append(f"{60 * self.done / elapsed:.0f}/min")
        left = self._time_left()
        if left is not None:
            words.append(f"{_minutes(left)} left")
        if self._governor is not None and self._governor.samples:
            last = self._governor.samples[-1]
            words.append(f"mem {last.used / GIB:.1f} GiB ({last.available / GIB:.1f} free)")
            words.append(f"jobs {last.running}/{last.allowed}" + (f" +{last.paused} paused" if last.paused else ""))
            slow = [f"{_short(name)} {seconds:.0f} s" for name, seconds in self._governor.slow() if seconds > 20]
            if slow:
                words.append("slow: " + ", ".join(slow))
        return words

    def _time_left(self) -> float | None:
        """Recounted every few seconds: it walks the whole graph."""
        now = time.monotonic()
        if self._estimate is None:
            return None
        if now - self._left_at > 10:
            self._left_at = now
            elapsed = now - self._first_step if self._first_step is not None else None
            left = self.total - self.done
            self._left = self._estimate.left(jobs=self._max_jobs, steps_left=left, elapsed=elapsed)
        return self._left


def _short(name: str) -> str:
    return name.replace("\\", "/").rsplit("/", 1)[-1]


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
