"""What carries cells out: this machine, a Dask cluster, or a model of one (:mod:`simulate`). An engine knows nothing of
cells beyond a command to run; the truth about a cell is in its directory, so an engine that dies loses only time. Each
command is a process tree that never outlives its worker. It hangs where no line comes and no processor time is used.

Of Dask, measured with distributed 2026.8: a killed worker orphans what it started and its task starts again elsewhere,
so every command runs under a guard that dies with the worker, and the cell's own lock keeps a second start away. Its
memory limit does not see children, so cells bring their own governor. A dead scheduler forgets all futures, so a
rerun adopts what it finds. Each task is bound to one worker, so nothing is stolen or queued behind a full one."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from rekindle.errors import BadInput, Interrupted, need_package
from rekindle.host.process import Running, run_long
from rekindle.model.matrix import Worker

MAX_LOG_BYTES = 64 << 20
IDLE_SECONDS = 1.0
LOOK_SECONDS = 0.25
CONNECT_SECONDS = 10.0
ASK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Task:
    """One try at a cell: a command, where, and for how long it may be silent and idle."""

    cell: str
    argv: tuple[str, ...]
    worker: str
    env: dict[str, str] = field(default_factory=dict)
    log: str = ""
    hang_seconds: float = 1800.0


class Ending(NamedTuple):
    """A task that ended. ``why`` is "" for an ordinary end, else "lost", "hang" or "cancelled"."""

    cell: str
    code: int
    seconds: float
    why: str = ""


class Engine(Protocol):
    """A matrix cancelled elsewhere is noticed by the cell's own command, so nothing here cancels."""

    def workers(self) -> Sequence[Worker]:
        """Who is there now."""

    def submit(self, task: Task) -> None:
        """Start a task; returns at once."""

    def wait(self, seconds: float) -> list[Ending]:
        """Endings, at the latest after ``seconds``."""

    def close(self) -> None:
        """Stop everything that still runs."""
        return


class LocalEngine:
    """This machine, described by ``worker``; ``env`` goes to every cell. ``tick`` looks at everything below this
    process at once and pauses compilers of any cell where memory is tight (one jobserver for all of them)."""

    def __init__(
        self,
        worker: Worker,
        *,
        env: Mapping[str, str],
        tick: Callable[[int], float | None] | None = None,
        cancelled: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._worker, self._env, self._cancelled = worker, dict(env), cancelled
        self._closed = threading.Event()
        self._pool = ThreadPoolExecutor(worker.slots)
        self._running: set[Future[Ending]] = set()

        def govern() -> None:
            wait_seconds = LOOK_SECONDS
            while tick is not None and not self._closed.wait(wait_seconds):
                wait_seconds = tick(os.getpid()) or LOOK_SECONDS

        threading.Thread(target=govern, daemon=True).start()

    def workers(self) -> Sequence[Worker]:
        return (self._worker,)

    def submit(self, task: Task) -> None:
        self._running.add(self._pool.submit(self._run, replace(task, env={**os.environ, **self._env, **task.env})))

    def _run(self, task: Task) -> Ending:
        try:
            return carry_out(task, stop=lambda: self._closed.is_set() or self._cancelled(task.cell))
        except OSError as error:
            return Ending(cell=task.cell, code=1, seconds=0.0, why=f"lost: {error.strerror or error}")

    def wait(self, seconds: float) -> list[Ending]:
        if not self._running:
            self._closed.wait(seconds)
        done, self._running = wait(self._running, seconds, FIRST_COMPLETED)
        return [future.result() for future in done]

    def close(self) -> None:
        """Returns when every task has stopped."""
        self._closed.set()
        self._pool.shutdown()


class Stopped(Exception):
    """``hang``: nothing happened for too long. ``cancelled``: somebody asked for the end."""


def carry_out(task: Task, *, stop: Callable[[], bool] = lambda: False) -> Ending:
    """Run a task to its end on the machine this is called on; ``stop`` is asked a few times a second."""
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

        def on_tick(running: Running) -> None:
            if stop():
                raise Stopped("cancelled")
            watch.look(lambda: processor_seconds(running))

        try:
            code = run_long(task.argv, cwd=log.parent, env=task.env, on_line=on_line, tick=on_tick)
            why = "lost" if code in (137, 143, 255) else ""
        except Stopped as stopped:
            why = str(stopped)
            code = 1 if why == "hang" else 3
    return Ending(cell=task.cell, code=code, seconds=time.monotonic() - begun, why=why)


class HangWatch:
    """Raises :class:`Stopped` when neither lines nor processor time came for ``limit`` seconds."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._clock = limit, clock
        self._alive = self._looked = clock()
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
            self._spent, self._alive = total, now
        if now - self._alive >= self._limit:
            raise Stopped("hang")


def processor_seconds(running: Running) -> float:
    """User and system time of everything below, as far as it still lives."""
    import psutil

    total = 0.0
    for pid in running.descendants():
        with contextlib.suppress(psutil.Error):
            total += sum(psutil.Process(pid).cpu_times()[:4])
    return total


def run_task(task: Task, cancel_file: str) -> Ending:
    """On the worker: this worker's own Python and environment, with what the task adds."""
    task = replace(task, argv=(sys.executable, *task.argv[1:]), env={**os.environ, **task.env})
    return carry_out(task, stop=lambda: os.path.exists(cancel_file))  # noqa: PTH110 (asked four times a second)


class DaskEngine:
    """``describe`` runs on each worker once and says what it has."""

    def __init__(self, address: str, *, describe: Callable[[], Worker], cancel_file: Callable[[str], str]) -> None:
        need_package("distributed", "the Dask engine")
        import distributed

        self._cancel_file, self._describe = cancel_file, describe
        self._known: dict[str, Worker] = {}
        self._running: dict[str, tuple[Any, Task, float]] = {}
        try:
            connect: Any = distributed.Client
            self._client: Any = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            remedy = "start one with 'dask scheduler', workers with 'dask worker ADDRESS --nthreads 1', or leave"
            remedy += " --engine out to build on this machine"
            raise BadInput(f"no Dask scheduler answers at {address}: {error}", remedy=remedy) from None

    def workers(self) -> Sequence[Worker]:
        """Each describes itself once, when it is new."""
        addresses = self._addresses()
        new = [address for address in addresses if address not in self._known]
        answers = self._client.run(self._describe, workers=new, on_error="ignore") if new else {}
        for address, worker in answers.items():
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
        """Bound to one worker, so that nothing is stolen."""
        key = f"rekindle-{task.cell}-{time.time_ns()}"
        bound = {"workers": [task.worker], "allow_other_workers": False, "retries": 0}
        future = self._client.submit(run_task, task, self._cancel_file(task.cell), key=key, **bound)
        self._running[task.cell] = (future, task, time.monotonic())

    def wait(self, seconds: float) -> list[Ending]:
        deadline = time.monotonic() + seconds
        while True:
            if self._client.status not in ("running", "connecting"):
                remedy = "start it and run the same command: what is done is kept, what still runs is adopted"
                raise Interrupted("the Dask scheduler is gone", remedy=remedy)
            endings = self._take_endings()
            if endings or time.monotonic() >= deadline:
                return endings
            time.sleep(ASK_SECONDS)

    def _take_endings(self) -> list[Ending]:
        there = set(self._addresses())
        endings = []
        for cell, (future, task, begun) in list(self._running.items()):
            if future.status == "finished":
                endings.append(future.result())
            elif future.status in ("error", "cancelled", "lost") or task.worker not in there:
                future.cancel()
                endings.append(Ending(cell=cell, code=1, seconds=time.monotonic() - begun, why="lost"))
            else:
                continue
            del self._running[cell]
        return endings

    def close(self) -> None:
        self._client.close(timeout=5)
