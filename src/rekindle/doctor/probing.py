"""Runs the probes side by side under one deadline. A probe that hangs costs its own answer, no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from rekindle.host.asking import Asking
from rekindle.host.protocol import Host
from rekindle.model.machine import Gap
from rekindle.model.progress import Progress, Silent

OUR_BUG = "a bug in rekindle"
Probe = Callable[[Asking], Any]


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
