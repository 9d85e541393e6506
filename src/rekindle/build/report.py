"""``report.html``: where the time and the memory went, in one file that needs no network and no script.

The time line is drawn from Ninja's own log, run after run; memory from what the governor saw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.build.governor import Sample
from rekindle.build.history import Learnt, kind_of
from rekindle.build.quicker import quicker
from rekindle.formats.ninja_log import Edge, read_ninja_log
from rekindle.host.files import write_atomically
from rekindle.host.redact import without_secrets
from rekindle.model.build import BuildResult
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds

WIDTH = 1100
# What only this page draws: the time line and the memory curve.
_STYLE = """
.cxx { fill: #3b7dd8; } .c { fill: #59a6c9; } .gpu { fill: #5aa02c; } .link { fill: #d9822b; } .other { fill: #9b8bc4; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 1em; }
.key.first { margin-left: 0; }
.used { fill: none; stroke: #3b7dd8; stroke-width: 1.5; } .running { fill: none; stroke: #5aa02c; stroke-width: 1; }
.paused { fill: none; stroke: #c94f4f; stroke-width: 1; } .tick { font-size: 10px; fill: var(--soft); }
.mark { stroke: var(--soft); stroke-dasharray: 3 3; }
"""
LANE = 14
MAX_BARS = 2500
MAX_LANES = 64
MAX_SLOW = 25
MEMORY_HEIGHT = 160


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A step in the time line."""

    x: float
    width: float
    y: int
    kind: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Slow:
    """A step that took long."""

    name: str
    seconds: float
    peak_mib: int | None


def write_report(
    path: Path, result: BuildResult, build_tree: Path, samples: Sequence[Sample], learnt: Learnt | None
) -> None:
    """Everything in one self-contained file."""
    import jinja2

    edges = read_ninja_log(build_tree / ".ninja_log")
    bars, lanes, total, marks = time_line(edges)
    template = jinja2.Template(
        (Path(__file__).parent / "report.html.jinja").read_text(encoding="utf-8"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=without_secrets,
    )
    body = template.render(
        result=result,
        bars=bars,
        marks=marks,
        height=max(1, lanes) * LANE,
        total=total,
        ticks=[(round(WIDTH * part / 5), spoken_seconds(total * part / 5)) for part in range(6)],
        width=WIDTH,
        slow=slowest(edges, learnt),
        kinds=by_kind(edges),
        quicker=quicker(edges, result),
        memory=memory_lines(samples),
        seconds=sum(phase.seconds for phase in result.phases),
        duration=spoken_seconds,
        gib=lambda count: f"{(count or 0) / 2**30:.2f} GiB",
        # By its name too: a token alone looks like nothing.
        settings=[
            (name, without_secrets(f"{name}={value}").partition("=")[2])
            for name, value in sorted(result.environment.items())
        ],
    )
    verdict, about = _title(result)
    write_atomically(path, page(verdict, f"{header(verdict, about, good=True)}\n{body}", more_style=_STYLE))


def _title(result: BuildResult) -> tuple[str, str]:
    name = " ".join(part for part in (result.project, result.plan.torch) if part)
    verdict = f"{name} is built" if not result.target else f"{result.target} of {name} is built"
    wheel = result.wheel.replace("\\", "/").rsplit("/", 1)[-1] if result.wheel else "no wheel asked for"
    parts = [
        wheel,
        f"for Python {result.python}" if result.python else "",
        "continued an earlier run" if result.resumed else "",
    ]
    return verdict, ", ".join(part for part in parts if part)


def time_line(edges: Sequence[Edge]) -> tuple[list[Bar], int, float, list[float]]:
    """Bars in lanes, runs one after another; (bars, lanes, total seconds, where runs begin)."""
    ends: dict[int, int] = {}
    for edge in edges:
        ends[edge.run] = max(ends.get(edge.run, 0), edge.end)
    offsets, at = {}, 0
    for run in sorted(ends):
        offsets[run] = at
        at += ends[run]
    total = max(1, at)
    scale = WIDTH / total
    # Only what is wide enough to see, the longest first to survive the limit.
    longest = sorted(edges, key=lambda edge: edge.start - edge.end)[:MAX_BARS]
    bars: list[Bar] = []
    free: list[int] = []
    for edge in sorted(longest, key=lambda edge: (offsets[edge.run] + edge.start, edge.end)):
        begin, end = offsets[edge.run] + edge.start, offsets[edge.run] + edge.end
        lane = next((number for number, until in enumerate(free) if until <= begin), len(free))
        if lane == len(free):
            if lane >= MAX_LANES:
                continue
            free.append(0)
        free[lane] = end
        name = edge.outputs[0]
        bars.append(
            Bar(
                x=round(begin * scale, 2),
                width=round(max(0.3, (end - begin) * scale - 0.2), 2),
                y=lane * LANE,
                kind=kind_of(name),
                title=f"{name.rsplit('/', 1)[-1]}: {edge.seconds:.1f} s",
            )
        )
    return bars, len(free), total / 1000, [round(offsets[run] * scale, 1) for run in sorted(offsets)][1:]


def slowest(edges: Sequence[Edge], learnt: Learnt | None) -> list[Slow]:
    """The steps that took longest, with the memory they took."""
    rows = []
    for edge in sorted(edges, key=lambda edge: edge.start - edge.end)[:MAX_SLOW]:
        peak = learnt.peak(edge.outputs[0]) if learnt else None
        rows.append(Slow(name=edge.outputs[0], seconds=edge.seconds, peak_mib=peak >> 20 if peak else None))
    return rows


def by_kind(edges: Sequence[Edge]) -> list[tuple[str, int, float]]:
    """How many steps of each kind, and their seconds together; what took most first."""
    totals: dict[str, tuple[int, float]] = {}
    for edge in edges:
        count, seconds = totals.get(kind_of(edge.outputs[0]), (0, 0.0))
        totals[kind_of(edge.outputs[0])] = (count + 1, seconds + edge.seconds)
    return sorted(((kind, *value) for kind, value in totals.items()), key=lambda row: -row[2])


def memory_lines(samples: Sequence[Sample]) -> dict[str, object]:
    """Polylines for what the build used, what was free, and how many jobs ran."""
    height = MEMORY_HEIGHT
    kept = list(samples[:: max(1, len(samples) // WIDTH)])
    if len(kept) < 2:
        return {}
    end = kept[-1].seconds or 1.0
    top = max(sample.used for sample in kept) or 1
    most = max(max(sample.running + sample.paused for sample in kept), 1)

    def line(value: str, largest: float) -> str:
        return " ".join(
            f"{sample.seconds / end * WIDTH:.1f},{height - getattr(sample, value) / largest * (height - 4):.1f}"
            for sample in kept
        )

    return {
        "used": line("used", top),
        "running": line("running", most),
        "paused": line("paused", most),
        "peak": top,
        "most": most,
        "seconds": end,
        "height": height,
    }
