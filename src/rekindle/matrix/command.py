"""Runs one cell's command so that nothing outlives its worker, and notices when it hangs.

Used by every engine on the machine that builds. A hang is: no new line and no processor time for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rekindle.host.process import Running, run_long
from rekindle.matrix.engine import Ending, Task

MAX_LOG_BYTES = 64 << 20
IDLE_SECONDS = 1.0


class Hang(Exception):
    """Nothing happened for too long."""


class Cancelled(Exception):
    """Somebody asked for the end."""


def carry_out(
    task: Task, *, stop: Callable[[], bool] = lambda: False, tick: Callable[[int], float | None] | None = None
) -> Ending:
    """Run to the end; ``stop`` is asked a few times a second, ``tick`` gets the root process (a governor's look)."""
    begun = time.monotonic()
    watch = HangWatch(task.hang_seconds)
    log = Path(task.log)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:

        def on_line(line: str) -> None:
            watch.heard()
            if file.tell() < MAX_LOG_BYTES:
                file.write(line.encode("utf-8", "replace") + b"\n")
                file.flush()

        def on_tick(running: Running) -> float | None:
            if stop():
                raise Cancelled
            watch.look(lambda: processor_seconds(running))
            return tick(running.pid) if tick else 0.25

        try:
            ended = run_long(task.argv, cwd=log.parent, env=task.env, on_line=on_line, tick=on_tick)
        except Hang:
            return Ending(cell=task.cell, code=1, seconds=time.monotonic() - begun, why="hang")
        except Cancelled:
            return Ending(cell=task.cell, code=3, seconds=time.monotonic() - begun, why="cancelled")
    why = "lost" if ended.code in (137, 143, 255) else ""
    return Ending(cell=task.cell, code=ended.code, seconds=ended.seconds, why=why)


class HangWatch:
    """Raises :class:`Hang` when neither lines nor processor time came for ``limit`` seconds."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._alive = clock()
        self._looked = clock()
        self._spent = 0.0

    def heard(self) -> None:
        """A line came."""
        self._alive = self._clock()

    def look(self, spent: Callable[[], float]) -> None:
        """Processor time is asked for only a few times per limit: it walks all processes."""
        now = self._clock()
        if now - self._looked < self._limit / 5:
            return
        self._looked = now
        total = spent()
        # Half a percent of the time: what a process that merely polls uses.
        if total - self._spent > max(IDLE_SECONDS, self._limit / 200):
            self._spent = total
            self._alive = now
        if now - self._alive >= self._limit:
            raise Hang


def processor_seconds(running: Running) -> float:
    """User and system time of everything below, as far as it still lives."""
    import psutil

    total = 0.0
    for pid in running.descendants():
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
