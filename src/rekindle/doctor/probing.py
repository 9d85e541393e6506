"""Runs the probes side by side under one deadline. A probe that hangs costs its own answer, no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from rekindle.doctor.recording_host import RecordingHost
from rekindle.host.protocol import Host
from rekindle.model.machine import Gap
from rekindle.model.progress import Progress, Silent

OUR_BUG = "a bug in rekindle"
# Commands end this long before the deadline, so that their processes are gone when the doctor is.
_TO_END_S = 0.5
Probe = Callable[["Asking"], Any]


class Asking(RecordingHost):
    """What a probe gets: a host that remembers, and a place to say what could not be learned."""

    def __init__(self, host: Host, probe: str, deadline: float) -> None:
        super().__init__(host, probe)
        self._deadline = deadline
        self.gaps: list[Gap] = []

    def gap(self, what: str, why: str) -> None:
        self.gaps.append(Gap(what=what, why=" ".join(why.split())[:300]))

    def left(self, at_most: float) -> float:
        """Seconds a command may take: its own limit or what the deadline leaves."""
        return max(0.05, min(at_most, self._deadline - _TO_END_S - time.monotonic()))


Q = TypeVar("Q")
A = TypeVar("A")


def ask_each(host: Asking, questions: Sequence[Q], ask: Callable[[Q], A], *, at_once: int) -> dict[Q, A]:
    """Ask several things at the same time. Whoever does not answer in time is missing from the result."""
    answers: dict[Q, A] = {}
    waiting = list(reversed(questions))

    def work() -> None:
        while waiting:
            try:
                question = waiting.pop()
            except IndexError:
                return
            answers[question] = ask(question)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(at_once, len(questions)))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(host.left(60))
    return dict(answers)


class Answers(msgspec.Struct, kw_only=True):
    """What the probes found, by name; a probe that did not finish is missing here and named in ``gaps``."""

    found: dict[str, Any] = msgspec.field(default_factory=dict)
    gaps: list[Gap] = msgspec.field(default_factory=list)
    asked: list[Asking] = msgspec.field(default_factory=list)


def run_probes(
    host: Host, probes: Mapping[str, Probe], *, deadline: float, progress: Progress | None = None
) -> Answers:
    """Run all of them at once; ``deadline`` (monotonic) holds for the lot."""
    answers = Answers()
    # Daemon threads: one that is stuck in a dead network mount must not keep the process from ending.
    running: list[tuple[str, Asking, threading.Thread, dict[str, Any]]] = []
    for name, probe in probes.items():
        asking = Asking(host, name, deadline)
        box: dict[str, Any] = {}
        thread = threading.Thread(target=_guarded, args=(probe, asking, box), name=f"probe {name}", daemon=True)
        thread.start()
        running.append((name, asking, thread, box))
    _wait([(name, thread) for name, _, thread, _ in running], deadline, progress or Silent())
    for name, asking, _, box in running:
        # Copied, because a probe that is still running may go on noting.
        answers.gaps += list(asking.gaps)
        answers.asked.append(asking)
        if "value" in box:
            answers.found[name] = box["value"]
        elif "error" in box:
            # Our own mistake in one probe must not hide the rest of the machine; it is said, not swallowed.
            answers.gaps.append(Gap(what=name, why=f"{OUR_BUG} ({box['error']!r:.200}); please report it"))
        else:
            last = asking.evidence[-1].asked if asking.evidence else "its first question"
            answers.gaps.append(Gap(what=name, why=f"no answer in time (after {last})"))
    return answers


def _wait(threads: list[tuple[str, threading.Thread]], deadline: float, progress: Progress) -> None:
    """Until all are done or the deadline; from the second second on, say whom one waits for."""
    begin = time.monotonic()
    while threads and (left := deadline - time.monotonic()) > 0:
        threads[0][1].join(min(left, 0.5))
        threads = [(name, thread) for name, thread in threads if thread.is_alive()]
        waited = time.monotonic() - begin
        if threads and waited > 1.5:
            progress.step(waited, deadline - begin, "waiting for " + ", ".join(name for name, _ in threads))


def _guarded(probe: Probe, asking: Asking, box: dict[str, Any]) -> None:
    try:
        box["value"] = probe(asking)
    except Exception as error:  # noqa: BLE001 (carried to the caller's thread and reported there)
        box["error"] = error
