"""Where a build's time went, as trace events that Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show: the
build's own phases in one row, every step of Ninja in a row per job.

Ninja notes when a step began and ended after its own start, and not when that was. The files it made say it: each was
written when its step ended. A trace holds the runs of this build; what was compiled before it began is
left out.
"""

import contextlib
import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.build.history import kind_of
from rekindle.formats.ninja import Edge, file_name, latest, read_ninja_log
from rekindle.host.files import write_atomically
from rekindle.model.document import encode

PHASES, STEPS = 1, 2
# A clock that was set, or a file system that rounds: so much earlier than the build a run may seem to begin.
_EARLIER_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class TimedSpan:
    """A part of the work and when it was done; seconds since 1970."""

    name: str
    begun: float
    seconds: float


def write_trace(
    path: Path, title: str, spans: Sequence[TimedSpan], ninja_tree: Path, where: Mapping[str, str] | None = None
) -> None:
    """``where``: object's file name → who compiled it, for those that are known."""
    first = min((span.begun for span in spans), default=0.0)
    edges = this_builds_edges(read_ninja_log(ninja_tree / ".ninja_log"), ninja_tree, first)
    phases = [_span_event(span.name, "phase", PHASES, 1, span.begun, span.seconds, {}) for span in spans]
    events = [_process_event(PHASES, title), *phases, *step_events(edges, where or {})]
    write_atomically(path, encode({"displayTimeUnit": "ms", "traceEvents": events}))


def join_traces(path: Path, traces: Iterable[tuple[str, Path]]) -> None:
    """Several builds in one trace, each with rows of its own; those that left none are passed over."""
    joined: list[dict[str, Any]] = []
    for number, (name, file) in enumerate(traces):
        try:
            events = json.loads(file.read_bytes())["traceEvents"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        for event in events:
            event["pid"] += number * STEPS
            if event["name"] == "process_name":
                event["args"] = {"name": f"{name}: {event['args']['name']}"}
        joined += events
    write_atomically(path, encode({"displayTimeUnit": "ms", "traceEvents": joined}))


def this_builds_edges(edges: Sequence[Edge], tree: Path, first: float) -> list[tuple[float, Edge]]:
    """Steps of runs that began after ``first``, each with the time (since 1970) at which its run began."""
    starts: dict[int, list[float]] = {}
    for output, edge in latest(edges).items():
        with contextlib.suppress(OSError):
            starts.setdefault(edge.run, []).append((tree / output).stat().st_mtime - edge.end / 1000)
    # A file that was touched later says too much, one that a step left as it was too little: the middle counts.
    began = {run: statistics.median(times) for run, times in starts.items()}
    return [(began[edge.run], edge) for edge in edges if began.get(edge.run, 0.0) >= first - _EARLIER_SECONDS]


def step_events(edges: Sequence[tuple[float, Edge]], where: Mapping[str, str]) -> list[dict[str, Any]]:
    """One complete event for each step, in the first row that is free."""
    events = [_process_event(STEPS, "Ninja")] if edges else []
    free: list[float] = []
    for run, edge in sorted(edges, key=lambda pair: pair[0] + pair[1].start / 1000):
        begun, name = run + edge.start / 1000, edge.outputs[0]
        row = take_row(free, begun, begun + edge.seconds)
        short = file_name(name)
        details = {"output": name} | ({"where": where[short]} if short in where else {})
        events.append(_span_event(short, kind_of(name), STEPS, row + 1, begun, edge.seconds, details))
    return events


def take_row(free: list[float], begin: float, end: float) -> int:
    """The first row that is free at ``begin``, taken until ``end``; ``free``: from when on each is."""
    row = next((number for number, until in enumerate(free) if until <= begin), len(free))
    free[row : row + 1] = [end]
    return row


def _process_event(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "ts": 0, "args": {"name": name}}


def _span_event(
    name: str, kind: str, process: int, row: int, begun: float, seconds: float, details: dict[str, str]
) -> dict[str, Any]:
    """Microseconds, as the format wants them."""
    return {
        "ph": "X",
        "name": name,
        "cat": kind,
        "pid": process,
        "tid": row,
        "ts": round(begun * 1e6),
        "dur": round(seconds * 1e6),
        "args": details,
    }
