"""What became of a farm's work, read from the logs of its scheduler and of the workers whose logs lie here.

The scheduler tells by HTTP only how many workers and slots there are and how many compilations run; which worker had
which of them, and what went wrong, stands in its log.
"""

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.model.farm import FarmFailure
from rekindle.model.toml import read_beside

_LINE = re.compile(r"\[(?P<when>\S+) (?P<level>[A-Z]+) +(?P<module>\S+?)\] (?P<text>.*)")
_CREATED = re.compile(r"Job (\d+) created and will be assigned to server ServerId\((.+)\)")
_STATE = re.compile(r"Job (\d+) updated state to (\w+)")
_REGISTERED = re.compile(r"Registered new server ServerId\((.+)\)")
_DEAD = re.compile(r"Server (\S+) appears to be dead")
_NUMBERS = re.compile(r"\d+")
_MAX_LINE = 2000


@dataclass
class SeenWorker:
    """A worker in the scheduler's log. ``jobs`` are those it has now."""

    here: bool
    compiled: int = 0
    lost: int = 0
    last: str | None = None
    jobs: set[str] = field(default_factory=set)


@dataclass
class SeenFarm:
    """All that was read: workers by address, and failures of one kind and place together."""

    workers: dict[str, SeenWorker] = field(default_factory=dict)
    failures: dict[tuple[str, str], FarmFailure] = field(default_factory=dict)

    def add_failure(self, where: str, when: str, text: str) -> None:
        """Note a failure; two that differ only in numbers are the same."""
        why, fix = explain_failure(text)
        key = (where, why or _NUMBERS.sub("N", text))
        count = self.failures[key].count + 1 if key in self.failures else 1
        self.failures[key] = FarmFailure(where=where, when=when, what=text[:300], why=why, fix=fix, count=count)


def read_scheduler_log(lines: Iterable[str], seen: SeenFarm) -> None:
    """Who took which compilation, and who was lost."""
    owner: dict[str, SeenWorker] = {}
    for when, level, text in _read_records(lines):
        if match := _CREATED.match(text):
            worker = owner[match[1]] = seen.workers.setdefault(match[2], SeenWorker(here=True))
            worker.jobs.add(match[1])
            worker.last = when
        elif match := _STATE.match(text):
            if match[2] == "Complete" and (done := owner.pop(match[1], None)):
                done.jobs.discard(match[1])
                done.compiled, done.last = done.compiled + 1, when
        # A worker that registers again was restarted: its jobs are gone, as those of a dead one.
        elif match := _REGISTERED.match(text) or _DEAD.match(text):
            here = match.re is _REGISTERED
            worker = seen.workers.setdefault(match[1], SeenWorker(here))
            worker.lost += len(worker.jobs)
            worker.jobs.clear()
            worker.here = here
            worker.last = when if here else worker.last
        if level in ("WARN", "ERROR"):
            dead = _DEAD.match(text) if level == "WARN" else None
            seen.add_failure(dead[1] if dead else "scheduler", when, text)


def read_worker_log(lines: Iterable[str], where: str, seen: SeenFarm) -> None:
    """What a worker itself says went wrong."""
    for when, level, text in _read_records(lines):
        if level in ("WARN", "ERROR"):
            seen.add_failure(where, when, text)


def _read_records(lines: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    for line in lines:
        if match := _LINE.match(line[:_MAX_LINE].rstrip()):
            yield match["when"], match["level"], match["text"]


def read_log(path: Path) -> Iterable[str]:
    """The lines of a log that may be long, and may not be there."""
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        yield from file


def explain_failure(text: str) -> tuple[str | None, str | None]:
    """What a line means and what to do; None where nobody knows."""
    rows = read_beside(__file__, "failures.toml", dict[str, list[dict[str, str]]])["failure"]
    return next(((row["why"], row.get("fix")) for row in rows if re.search(row["pattern"], text)), (None, None))
