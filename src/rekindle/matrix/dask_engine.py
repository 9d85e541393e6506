"""The engine on a Dask cluster. Dask carries commands to workers; what it does not promise is ours to bring.

Measured with distributed 2026.8: a killed worker orphans what it started and its task starts again elsewhere, so
every command runs under a guard that dies with the worker, and the cell's own lock keeps a second start away. Its
memory limit does not see children, so cells bring their own governor. A dead scheduler forgets all futures, so a
rerun adopts what it finds. Each task is bound to one worker, so nothing is stolen or queued behind a full one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from rekindle.errors import BadInput, Interrupted, need_package
from rekindle.matrix.engine import Ending, Task, carry_out
from rekindle.model.matrix import Worker

CONNECT_SECONDS = 10.0
LOOK_SECONDS = 0.1


def run_task(task: Task, cancel_file: str) -> Ending:
    """On the worker: this worker's own Python and environment, with what the task adds."""
    argv = (sys.executable, *task.argv[1:])
    task = replace(task, argv=argv, env={**os.environ, **task.env})
    return carry_out(task, stop=lambda: os.path.exists(cancel_file))  # noqa: PTH110 (asked four times a second)


class DaskEngine:
    """``describe`` runs on each worker once and says what it has."""

    def __init__(self, address: str, *, describe: Callable[[], Worker], cancel_file: Callable[[str], str]) -> None:
        need_package("distributed", "the Dask engine")
        import distributed

        self._cancel_file = cancel_file
        self._describe = describe
        self._known: dict[str, Worker] = {}
        self._running: dict[str, tuple[Any, Task, float]] = {}
        try:
            connect: Any = distributed.Client
            self._client: Any = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise BadInput(
                f"no Dask scheduler answers at {address}: {error}",
                remedy="start one with 'dask scheduler', workers with 'dask worker ADDRESS --nthreads 1', or leave"
                " --engine out to build on this machine",
            ) from None

    def workers(self) -> Sequence[Worker]:
        addresses = self._addresses()
        new = [address for address in addresses if address not in self._known]
        if new:
            for address, worker in self._client.run(self._describe, workers=new, on_error="ignore").items():
                if isinstance(worker, Worker):
                    # One build at a time on each: the governor, not Dask's thread count, decides about compilers.
                    self._known[address] = msgspec.structs.replace(worker, name=address, slots=1)
        return [self._known[address] for address in addresses if address in self._known]

    def _addresses(self) -> list[str]:
        try:
            return sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        except TypeError:
            return sorted(self._client.scheduler_info()["workers"])

    def submit(self, task: Task) -> None:
        key = f"rekindle-{task.cell}-{time.time_ns()}"
        bound = {"workers": [task.worker], "allow_other_workers": False, "pure": False, "retries": 0}
        future = self._client.submit(run_task, task, self._cancel_file(task.cell), key=key, **bound)
        self._running[task.cell] = (future, task, time.monotonic())

    def wait(self, seconds: float) -> list[Ending]:
        deadline = time.monotonic() + seconds
        while True:
            if self._client.status not in ("running", "connecting"):
                raise Interrupted(
                    "the Dask scheduler is gone",
                    remedy="start it and run the same command: what is done is kept, what still runs is adopted",
                )
            found = self._ended()
            if found or time.monotonic() >= deadline:
                return found
            time.sleep(LOOK_SECONDS)

    def _ended(self) -> list[Ending]:
        there = set(self._addresses())
        found = []
        for cell, (future, task, begun) in list(self._running.items()):
            status = future.status
            seconds = time.monotonic() - begun
            if status == "finished":
                found.append(future.result())
            elif status in ("error", "cancelled", "lost") or task.worker not in there:
                future.cancel()
                found.append(Ending(cell=cell, code=1, seconds=seconds, why="lost"))
            else:
                continue
            del self._running[cell]
        return found

    def close(self) -> None:
        self._client.close(timeout=5)
