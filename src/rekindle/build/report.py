"""Where a build's time and memory went: ``report.html``, one file that needs no network and no script, with what would
have been quicker (where it would have mattered); and the trace, which Perfetto (ui.perfetto.dev) and Chrome show.

The time line is drawn from Ninja's own log, run after run; memory from what the governor saw. Ninja notes when a step
began and ended after its own start, and not when that was: the files it made say it, each written when its step ended.
A trace holds the build's own phases and the runs of this build, a row per job, and nothing compiled before it began.
"""

import contextlib
import itertools
import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rekindle.build.governor import Sample
from rekindle.build.history import ObjectCosts, kind_of
from rekindle.formats.ninja import Edge, file_name, latest, read_ninja_log
from rekindle.host.files import write_atomically
from rekindle.host.redact import fill_template, without_secrets
from rekindle.model.build import BuildResult
from rekindle.model.document import encode
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds
from rekindle.model.toml import read_beside

WIDTH = 1100
LANE = 14
MAX_BARS = 2500
MAX_LANES = 64
MAX_SLOW = 25
MEMORY_HEIGHT = 160
WORTH = 0.03  # of the compile time; less is noise
CXX_SECONDS = 600.0
_COMPILED = ("cxx", "c", "gpu")
_PCH = "USE_PRECOMPILED_HEADERS"
_QUICKER = read_beside(__file__, "quicker.toml", dict[str, str])
# Processes of a trace.
PHASES, STEPS = 1, 2
# A clock that was set, or a file system that rounds: so much earlier than the build a run may seem to begin.
_EARLIER_SECONDS = 2.0


class Bar(NamedTuple):
    """A step on the time line, in pixels."""

    x: float
    width: float
    y: int
    kind: str
    title: str


def write_report(
    path: Path, result: BuildResult, build_tree: Path, samples: Sequence[Sample], learnt: ObjectCosts | None
) -> None:
    """The page of one build, made from its result and Ninja's log."""
    edges = read_ninja_log(build_tree / ".ninja_log")
    bars, lanes, total, marks = time_line(edges)
    settings = sorted(result.environment.items())
    body = fill_template(
        Path(__file__).with_name("report.html.jinja"),
        result=result,
        bars=bars,
        marks=marks,
        height=lanes * LANE,
        total=total,
        ticks=[(round(WIDTH * part / 5), spoken_seconds(total * part / 5)) for part in range(6)],
        width=WIDTH,
        slow=sorted(edges, key=lambda edge: edge.start - edge.end)[:MAX_SLOW],
        peak=learnt.peak if learnt else lambda output: None,
        kinds=by_kind(edges),
        quicker=quicker(edges, result),
        memory=memory_lines(samples),
        seconds=sum(phase.seconds for phase in result.phases),
        duration=spoken_seconds,
        gib=lambda count: f"{(count or 0) / 2**30:.2f} GiB",
        # By its name too: a token alone looks like nothing.
        settings=[(name, without_secrets(f"{name}={value}").partition("=")[2]) for name, value in settings],
    )
    verdict, about = _title(result)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    write_atomically(path, page(verdict, f"{header(verdict, about, good=True)}\n{body}", more_style=style))


def _title(result: BuildResult) -> tuple[str, str]:
    name = " ".join(part for part in (result.project, result.plan.torch) if part)
    verdict = f"{name} is built" if not result.target else f"{result.target} of {name} is built"
    wheel = result.wheel.replace("\\", "/").rpartition("/")[2] if result.wheel else "no wheel asked for"
    python = f"for Python {result.python}" if result.python else ""
    return verdict, ", ".join(filter(None, (wheel, python, "continued an earlier run" if result.resumed else "")))


def time_line(edges: Sequence[Edge]) -> tuple[list[Bar], int, float, list[float]]:
    """Bars in lanes, runs one after another; (bars, lanes, total seconds, where runs begin)."""
    ends = {run: max(edge.end for edge in edges if edge.run == run) for run in {edge.run for edge in edges}}
    begins = itertools.accumulate((ends[run] for run in sorted(ends)), initial=0)
    offsets = dict(zip(sorted(ends), begins, strict=False))
    total = max(1, sum(ends.values()))
    scale = WIDTH / total
    # Only what is wide enough to see, the longest first to survive the limit.
    longest = sorted(edges, key=lambda edge: edge.start - edge.end)[:MAX_BARS]
    bars: list[Bar] = []
    free: list[float] = []
    for edge in sorted(longest, key=lambda edge: (offsets[edge.run] + edge.start, edge.end)):
        begin, end = offsets[edge.run] + edge.start, offsets[edge.run] + edge.end
        if len(free) >= MAX_LANES and min(free) > begin:
            continue
        lane = take_row(free, begin, end)
        name = edge.outputs[0]
        width = round(max(0.3, (end - begin) * scale - 0.2), 2)
        title = f"{name.rsplit('/', 1)[-1]}: {edge.seconds:.1f} s"
        bars.append(Bar(x=round(begin * scale, 2), width=width, y=lane * LANE, kind=kind_of(name), title=title))
    return bars, len(free), total / 1000, [round(offsets[run] * scale, 1) for run in sorted(offsets)][1:]


def by_kind(edges: Sequence[Edge]) -> list[tuple[str, int, float]]:
    """How many steps of each kind, and their seconds together; what took most first."""
    spent: dict[str, list[float]] = {}
    for edge in edges:
        spent.setdefault(kind_of(edge.outputs[0]), []).append(edge.seconds)
    return sorted(((kind, len(each), sum(each)) for kind, each in spent.items()), key=lambda row: -row[2])


def memory_lines(samples: Sequence[Sample]) -> dict[str, object]:
    """Polylines for what the build used, what was free, and how many jobs ran."""
    shown = list(samples[:: max(1, len(samples) // WIDTH)])
    if len(shown) < 2:
        return {}
    end = shown[-1].seconds or 1.0
    top = max(sample.used for sample in shown) or 1
    most = max(max(sample.running + sample.paused for sample in shown), 1)

    def line(value: str, largest: float) -> str:
        points = ((sample.seconds / end, getattr(sample, value) / largest) for sample in shown)
        return " ".join(f"{x * WIDTH:.1f},{MEMORY_HEIGHT - y * (MEMORY_HEIGHT - 4):.1f}" for x, y in points)

    lines = {name: line(name, largest) for name, largest in (("used", top), ("running", most), ("paused", most))}
    return {**lines, "peak": top, "most": most, "seconds": end, "height": MEMORY_HEIGHT}


def quicker(edges: Sequence[Edge], result: BuildResult) -> list[str]:
    """Sentences for the report, what saves most first."""
    return [text for _, text in sorted([*_giants(edges), *_other_tips(edges, result)], key=lambda tip: -tip[0])]


def lanes(edges: Sequence[Edge]) -> int:
    """How many ran at once at most."""
    moments = sorted([(edge.start, 1) for edge in edges] + [(edge.end, -1) for edge in edges])
    return max(itertools.accumulate(change for _, change in moments), default=0)


def packed_seconds(edges: Sequence[Edge], jobs: int) -> float:
    """Seconds of the same steps, longest first, on as many cores; what waits for what is left out, so at least this."""
    ends = [0] * jobs
    for length in sorted((edge.end - edge.start for edge in edges), reverse=True):
        ends[ends.index(min(ends))] += length
    return max(ends) / 1000


def idle_tail(edges: Sequence[Edge], jobs: int) -> tuple[float, list[Edge]]:
    """Seconds at the end of the compilations with half the cores or fewer at work, and the steps that ran then."""
    end = max(edge.end for edge in edges)
    moments = sorted({edge.start for edge in edges} | {edge.end for edge in edges}, reverse=True)
    begin = end
    for moment in moments:
        if sum(edge.start <= moment < edge.end for edge in edges) * 2 > jobs:
            break
        begin = moment
    late = [edge for edge in edges if edge.end > begin]
    return (end - begin) / 1000, sorted(late, key=lambda edge: edge.start - edge.end)


def _giants(edges: Sequence[Edge]) -> Iterator[tuple[float, str]]:
    last = max((edge.run for edge in edges), default=None)
    steps = [edge for edge in edges if edge.run == last and kind_of(edge.outputs[0]) in _COMPILED]
    if (jobs := lanes(steps)) < 2:
        return
    took = (max(edge.end for edge in steps) - min(edge.start for edge in steps)) / 1000
    idle, late = idle_tail(steps, jobs)
    if (saved := min(idle, took - packed_seconds(steps, jobs))) >= took * WORTH:
        files = [(file_name(edge.outputs[0]).removesuffix(".o").removesuffix(".obj"), edge) for edge in late[:3]]
        names = ", ".join(f"{file} ({edge.seconds:.0f} s)" for file, edge in files)
        yield saved, _QUICKER["giants"].format(saved=saved, jobs=jobs, names=names)


def _other_tips(edges: Sequence[Edge], result: BuildResult) -> Iterator[tuple[float, str]]:
    steps = [edge for edge in edges if kind_of(edge.outputs[0]) in _COMPILED]
    if result.paused:
        yield max((edge.seconds for edge in steps), default=0.0), _QUICKER["memory"].format(times=result.paused)
    spent = sum(edge.seconds for edge in edges if kind_of(edge.outputs[0]) == "cxx")
    unset = result.environment.get(_PCH, "0") in ("0", "OFF")
    if result.project == "torch" and spent >= CXX_SECONDS and unset:
        yield spent / 2, _QUICKER["headers"].format(minutes=spent / 60, switch=_PCH)
    spent = sum(edge.seconds for edge in steps)
    if not result.launcher and spent >= 60:
        yield 0.0, _QUICKER["cache"].format(count=len(steps), minutes=spent / 60)


@dataclass(frozen=True, kw_only=True)
class TimedSpan:
    """A part of the work and when it was done; seconds since 1970."""

    name: str
    begun: float
    seconds: float


def write_trace(
    path: Path, title: str, spans: Sequence[TimedSpan], ninja_tree: Path, where: Mapping[str, str] | None = None
) -> None:
    """One event for each phase, and for each step in the first row that is free. ``where``: object's file name → who
    compiled it, for those that are known."""
    events = [_process_event(PHASES, title)]
    events += [_span_event(span.name, "phase", PHASES, 1, span.begun, span.seconds, {}) for span in spans]
    edges = read_ninja_log(ninja_tree / ".ninja_log")
    starts: dict[int, list[float]] = {}
    for output, edge in latest(edges).items():
        with contextlib.suppress(OSError):
            made = (ninja_tree / output).stat().st_mtime
            starts.setdefault(edge.run, []).append(made - edge.end / 1000)
    # A file that was touched later says too much, one that a step left as it was too little: the middle counts.
    began = {run: statistics.median(times) for run, times in starts.items()}
    # Before its first phase a build compiles nothing: whatever lies there is older.
    first = min((span.begun for span in spans), default=math.inf) - _EARLIER_SECONDS
    own = {run: begun for run, begun in began.items() if begun >= first}
    steps = [(own[edge.run] + edge.start / 1000, edge) for edge in edges if edge.run in own]
    events += [_process_event(STEPS, "Ninja")] if steps else []
    free: list[float] = []
    for begun, edge in sorted(steps, key=lambda step: step[0]):
        row = take_row(free, begun, begun + edge.seconds)
        name, short = edge.outputs[0], file_name(edge.outputs[0])
        details = {"output": name} | ({"where": where[short]} if where and short in where else {})
        events.append(_span_event(short, kind_of(name), STEPS, row + 1, begun, edge.seconds, details))
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
    event = {"ph": "X", "name": name, "cat": kind, "pid": process, "tid": row}
    return {**event, "ts": round(begun * 1e6), "dur": round(seconds * 1e6), "args": details}
