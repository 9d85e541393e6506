"""Watches a running build: what Ninja says it has done, how fast, what is slow, and how long it may still take."""

from __future__ import annotations

import re
import time

from rekindle.build.log import BuildLog
from rekindle.host.process import Running
from rekindle.model.progress import Progress

_STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")


class Supervisor:
    """Gets every line and every tick of one external command."""

    def __init__(self, log: BuildLog, progress: Progress, stage: str) -> None:
        self._log = log
        self._progress = progress
        self.done = 0
        self.total = 0
        self._detail = stage
        self._begun = time.monotonic()

    def line(self, line: str) -> None:
        self._log.write(line)
        match = _STATUS.match(line)
        if match:
            self.done, self.total = int(match[1]), int(match[2])
            self._detail = match[3][:120]
            self._show()

    def tick(self, running: Running) -> None:
        self._show()

    def _show(self) -> None:
        if self.total:
            self._progress.step(self.done, self.total, f"{self.done}/{self.total}  {self._detail}")
        else:
            self._progress.step(round(time.monotonic() - self._begun), None, f"s  {self._detail}")
