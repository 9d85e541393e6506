"""How a long step tells what it is doing, without knowing who listens.

Stages take a ``Progress``; ``render`` has the one that draws, tests and libraries use ``Silent``."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from rekindle.model.spoken import ALMOST_SECONDS, GIB, spoken_left

GIANT_SECONDS = 20.0
_PATIENT_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One compiler. ``expected`` is how long it took elsewhere or before; None where nobody knows."""

    name: str
    seconds: float
    bytes: int = 0
    paused: bool = False
    expected: float | None = None

    @property
    def is_giant(self) -> bool:
        """Does it take, or did it take, so long that it must not start last?"""
        return max(self.seconds, self.expected or self.seconds) >= GIANT_SECONDS


@dataclass(frozen=True, kw_only=True)
class BuildView:
    """``left`` is an estimate in seconds; ``hits`` and ``misses`` are the compiler cache's, None without one;
    ``elsewhere`` and ``here`` are compilations of a build on a farm, which has ``slots`` now."""

    done: int
    total: int
    per_minute: float | None = None
    left: float | None = None
    used: int | None = None
    free: int | None = None
    running: int = 0
    allowed: int = 0
    paused: int = 0
    jobs: tuple[JobView, ...] = ()
    hits: int | None = None
    misses: int | None = None
    elsewhere: int | None = None
    here: int | None = None
    slots: int = 0

    @property
    def overdue(self) -> JobView | None:
        """The job that the end waits for, where it has run well past what was expected of it."""
        active = (job for job in self.jobs if not job.paused and job.seconds > GIANT_SECONDS)
        late = (job for job in active if not job.expected or job.seconds > 1.5 * job.expected)
        return max(late, key=lambda job: job.seconds, default=None)

    @property
    def words(self) -> list[str]:
        """Steps, pace, time left, memory, jobs, cache; the most wanted first."""
        words = [f"{self.done}/{self.total}"]
        if self.per_minute:
            words.append(f"{self.per_minute:.0f}/min")
        if self.left is not None:
            # Where only what takes longer than expected is left, no number is honest.
            unknown = self.left < ALMOST_SECONDS and self.overdue is not None
            words.append("longer than expected" if unknown else spoken_left(self.left))
        if self.used is not None and self.free is not None:
            words.append(f"mem {self.used / GIB:.1f} GiB ({self.free / GIB:.1f} free)")
        if self.allowed:
            words.append(f"jobs {self.running}/{self.allowed}" + (f" +{self.paused} paused" if self.paused else ""))
        if self.hits is not None and self.misses is not None and self.hits + self.misses:
            words.append(f"cache {self.hits} of {self.hits + self.misses}")
        if self.elsewhere is not None:
            words.append(f"farm {self.elsewhere} there, {self.here} here ({self.slots} slots)")
        return words

    @property
    def line(self) -> str:
        """All of it with the slowest compilers, for a pipe or a log."""
        slow = [f"{job.name} {job.seconds:.0f} s" for job in self.jobs[:2] if job.seconds >= GIANT_SECONDS]
        return "  ".join(self.words) + (f"  slow: {', '.join(slow)}" if slow else "")


class Progress(Protocol):
    """Every call is cheap; the listener decides what is shown and how often."""

    def stage(self, name: str, detail: str = "") -> None:
        """A new part of the work begins."""
        return

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        """So much of the current part is done; ``total`` is None where nobody knows."""
        return

    def note(self, text: str) -> None:
        """A sentence worth keeping on the screen."""
        return


def show_build(progress: Progress, view: BuildView) -> None:
    """On a panel where the listener has one, else as a step."""
    if (panel := getattr(progress, "panel", None)) is not None:
        panel(view)
    else:
        progress.step(view.done, view.total, view.line)


class Silent(Progress):
    """Nobody listens, and nothing is said."""


@contextlib.contextmanager
def run_meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Runs ``work`` in a thread; the event tells it that what it accompanies is done."""
    done = threading.Event()
    thread = threading.Thread(target=work, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def tell_while(progress: Progress, text: str) -> contextlib.AbstractContextManager[None]:
    """Say what is being waited for once that takes longer than two seconds, and from then on for how long."""
    began = time.monotonic()

    def tell(done: threading.Event) -> None:
        if not done.wait(timeout=_PATIENT_SECONDS):
            progress.note(text)
        while not done.wait(timeout=1.0):
            progress.step(0, None, f"{text}: {time.monotonic() - began:.0f} s")

    return run_meanwhile(tell)
