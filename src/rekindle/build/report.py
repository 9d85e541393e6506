"""``report.html``: where the time and the memory went, in one file that needs no network and no script; and what would
have been quicker, read from how the build really went, in sentences with figures.

The time line is drawn from Ninja's own log, run after run; memory from what the governor saw. What would have been
quicker is said only where it would have mattered: *giants* that ran while other cores had nothing left to do,
compilations that a *cache* could have kept, C++ that *precompiled headers* save much of, *memory* that compilers had to
wait for.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rekindle.build.governor import Sample
from rekindle.build.history import ObjectCosts, kind_of
from rekindle.build.trace import take_row
from rekindle.formats.ninja import Edge, file_name, read_ninja_log
from rekindle.host.files import write_atomically
from rekindle.host.redact import fill_template, without_secrets
from rekindle.model.build import BuildResult
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds

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


class Bar(NamedTuple):
    x: float
    width: float
    y: int
    kind: str
    title: str


def write_report(
    path: Path, result: BuildResult, build_tree: Path, samples: Sequence[Sample], learnt: ObjectCosts | None
) -> None:
    edges = read_ninja_log(build_tree / ".ninja_log")
    bars, lanes, total, marks = time_line(edges)
    body = fill_template(
        Path(__file__).with_name("report.html.jinja"),
        result=result,
        bars=bars,
        marks=marks,
        height=max(1, lanes) * LANE,
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
        settings=[
            (name, without_secrets(f"{name}={value}").partition("=")[2])
            for name, value in sorted(result.environment.items())
        ],
    )
    verdict, about = _title(result)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    write_atomically(path, page(verdict, f"{header(verdict, about, good=True)}\n{body}", more_style=style))


def _title(result: BuildResult) -> tuple[str, str]:
    name = " ".join(part for part in (result.project, result.plan.torch) if part)
    verdict = f"{name} is built" if not result.target else f"{result.target} of {name} is built"
    wheel = result.wheel.replace("\\", "/").rsplit("/", 1)[-1] if result.wheel else "no wheel asked for"
    python = f"for Python {result.python}" if result.python else ""
    return verdict, ", ".join(filter(None, (wheel, python, "continued an earlier run" if result.resumed else "")))


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
    free: list[float] = []
    for edge in sorted(longest, key=lambda edge: (offsets[edge.run] + edge.start, edge.end)):
        begin, end = offsets[edge.run] + edge.start, offsets[edge.run] + edge.end
        if len(free) >= MAX_LANES and min(free) > begin:
            continue
        lane = take_row(free, begin, end)
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
    shown = list(samples[:: max(1, len(samples) // WIDTH)])
    if len(shown) < 2:
        return {}
    end = shown[-1].seconds or 1.0
    top = max(sample.used for sample in shown) or 1
    most = max(max(sample.running + sample.paused for sample in shown), 1)

    def line(value: str, largest: float) -> str:
        return " ".join(
            f"{sample.seconds / end * WIDTH:.1f},{height - getattr(sample, value) / largest * (height - 4):.1f}"
            for sample in shown
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


def quicker(edges: Sequence[Edge], result: BuildResult) -> list[str]:
    """Sentences for the report, what saves most first."""
    tips = [*_giants(edges), *_other_tips(edges, result)]
    return [text for _, text in sorted(tips, key=lambda tip: -tip[0])]


def lanes(edges: Sequence[Edge]) -> int:
    moments = sorted([(edge.start, 1) for edge in edges] + [(edge.end, -1) for edge in edges])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


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


def _compilations(edges: Sequence[Edge]) -> list[Edge]:
    return [edge for edge in edges if kind_of(edge.outputs[0]) in _COMPILED]


def _giants(edges: Sequence[Edge]) -> Iterator[tuple[float, str]]:
    last = max((edge.run for edge in edges), default=0)
    steps = [edge for edge in _compilations(edges) if edge.run == last]
    jobs = lanes(steps)
    if jobs < 2:
        return
    took = (max(edge.end for edge in steps) - min(edge.start for edge in steps)) / 1000
    idle, late = idle_tail(steps, jobs)
    saved = min(idle, took - packed_seconds(steps, jobs))
    if saved >= took * WORTH:
        files = [(file_name(edge.outputs[0]).removesuffix(".o").removesuffix(".obj"), edge) for edge in late[:3]]
        names = ", ".join(f"{file} ({edge.seconds:.0f} s)" for file, edge in files)
        text = f"{saved:.0f} s at the end at least half of the {jobs} jobs had nothing to do while {names} ran: longest"
        text += " first would have saved up to that. The next build in this workspace knows these files and starts them"
        yield saved, f"{text} first."


def _other_tips(edges: Sequence[Edge], result: BuildResult) -> Iterator[tuple[float, str]]:
    steps = _compilations(edges)
    if result.paused:
        most = max((edge.seconds for edge in steps), default=0.0)
        yield most, f"Compilers were paused {result.paused} times for want of memory: more memory, or less beside it."
    spent = sum(edge.seconds for edge in edges if kind_of(edge.outputs[0]) == "cxx")
    unset = result.environment.get(_PCH, "0") in ("0", "OFF")
    if result.project == "torch" and spent >= CXX_SECONDS and unset:
        text = f"C++ took {spent / 60:.0f} min of compiling: with --set {_PCH}=1 torch's own headers are compiled"
        yield spent / 2, f"{text} once, not for every file."
    spent = sum(edge.seconds for edge in steps)
    if not result.launcher and spent >= 60:
        text = f"{len(steps)} compilations took {spent / 60:.0f} min: with --launcher ccache the same build again, also"
        yield 0.0, f"{text} in another place, takes them from the cache."
