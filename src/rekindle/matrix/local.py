"""The engine on this machine: a few cells side by side, all compilers under one memory governor.

Each cell is a process of its own, so a crash of one harms no other. ``tick`` looks at everything below this process
at once and pauses compilers of any cell where memory is tight (one jobserver for all of them).
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rekindle.matrix.command import carry_out
from rekindle.matrix.engine import Ending, Task
from rekindle.model.matrix import Worker


class LocalEngine:
    """``worker`` describes this machine; ``env`` goes to every cell."""

    name = "local"

    def __init__(
        self,
        worker: Worker,
        *,
        env: Mapping[str, str],
        tick: Callable[[int], float | None] | None = None,
        cancelled: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._cancelled = cancelled
        self._worker = worker
        self._env = dict(env)
        self._tick = tick
        self._endings: queue.Queue[Ending] = queue.Queue()
        self._stops: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []
        self._closed = threading.Event()
        if tick is not None:
            threading.Thread(target=self._govern, daemon=True).start()

    def workers(self) -> Sequence[Worker]:
        return (self._worker,)

    def submit(self, task: Task) -> None:
        stop = self._stops[task.cell] = threading.Event()
        task = replace(task, env={**os.environ, **self._env, **task.env})
        thread = threading.Thread(target=self._run, args=(task, stop), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self, task: Task, stop: threading.Event) -> None:
        try:
            ending = carry_out(task, stop=lambda: stop.is_set() or self._cancelled(task.cell))
        except OSError as error:
            ending = Ending(cell=task.cell, code=1, seconds=0.0, why=f"lost: {error.strerror or error}")
        self._endings.put(ending)

    def _govern(self) -> None:
        """One look at all compilers below this process, again and again."""
        wait = 0.25
        while not self._closed.wait(wait):
            wait = (self._tick(os.getpid()) if self._tick else None) or 0.25

    def wait(self, seconds: float) -> list[Ending]:
        found: list[Ending] = []
        deadline = time.monotonic() + seconds
        while True:
            try:
                found.append(self._endings.get(timeout=max(0.0, deadline - time.monotonic()) if not found else 0.0))
            except queue.Empty:
                return found

    def cancel(self, cell: str) -> None:
        if cell in self._stops:
            self._stops[cell].set()

    def close(self) -> None:
        self._closed.set()
        for stop in self._stops.values():
            stop.set()
        for thread in self._threads:
            thread.join(timeout=20.0)
