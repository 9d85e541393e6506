"""What would have been quicker: read from how the build really went, in sentences with figures.

Each is said only where it would have mattered: *giants* that ran while other cores had nothing left to do, compilations
that a *cache* could have kept, C++ that *precompiled headers* save much of, *memory* that compilers had to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.build.history import kind_of
from rekindle.formats.ninja_log import Edge
from rekindle.model.build import BuildResult

WORTH = 0.03  # of the compile time; less is noise
CXX_SECONDS = 600.0
_COMPILED = ("cxx", "c", "gpu")
_PCH = "USE_PRECOMPILED_HEADERS"


def quicker(edges: Sequence[Edge], result: BuildResult) -> list[str]:
    """Sentences for the report, what saves most first."""
    found = [*_giants(edges), *_memory(edges, result), *_headers(edges, result), *_cache(edges, result)]
    return [text for _, text in sorted(found, key=lambda one: -one[0])]


def lanes(edges: Sequence[Edge]) -> int:
    """How many steps ran at once at the most."""
    moments = sorted([(edge.start, 1) for edge in edges] + [(edge.end, -1) for edge in edges])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def packed(edges: Sequence[Edge], jobs: int) -> float:
    """Seconds of the same steps, longest first, on as many cores; what waits for what is left out, so at least this."""
    ends = [0] * jobs
    for length in sorted((edge.end - edge.start for edge in edges), reverse=True):
        ends[ends.index(min(ends))] += length
    return max(ends) / 1000


def tail(edges: Sequence[Edge], jobs: int) -> tuple[float, list[Edge]]:
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


def _giants(edges: Sequence[Edge]) -> list[tuple[float, str]]:
    last = max((edge.run for edge in edges), default=0)
    steps = [edge for edge in _compilations(edges) if edge.run == last]
    jobs = lanes(steps)
    if jobs < 2:
        return []
    took = (max(edge.end for edge in steps) - min(edge.start for edge in steps)) / 1000
    idle, late = tail(steps, jobs)
    saved = min(idle, took - packed(steps, jobs))
    if saved < took * WORTH:
        return []
    files = [(edge.outputs[0].rsplit("/", 1)[-1].removesuffix(".o").removesuffix(".obj"), edge) for edge in late[:3]]
    names = ", ".join(f"{file} ({edge.seconds:.0f} s)" for file, edge in files)
    text = (
        f"{saved:.0f} s at the end at least half of the {jobs} jobs had nothing to do while {names} ran: longest first"
        " would have saved up to that. The next build in this workspace knows these files and starts them first."
    )
    return [(saved, text)]


def _memory(edges: Sequence[Edge], result: BuildResult) -> list[tuple[float, str]]:
    if not result.paused:
        return []
    most = max((edge.seconds for edge in _compilations(edges)), default=0.0)
    return [(most, f"Compilers were paused {result.paused} times for want of memory: more memory, or less beside it.")]


def _headers(edges: Sequence[Edge], result: BuildResult) -> list[tuple[float, str]]:
    spent = sum(edge.seconds for edge in edges if kind_of(edge.outputs[0]) == "cxx")
    torch = result.project == "torch"
    if not torch or spent < CXX_SECONDS or result.environment.get(_PCH, "0") not in ("0", "OFF"):
        return []
    text = (
        f"C++ took {spent / 60:.0f} min of compiling: with --set {_PCH}=1 torch's own headers are compiled once, not"
        " for every file."
    )
    return [(spent / 2, text)]


def _cache(edges: Sequence[Edge], result: BuildResult) -> list[tuple[float, str]]:
    steps = _compilations(edges)
    spent = sum(edge.seconds for edge in steps)
    if result.launcher or spent < 60:
        return []
    text = (
        f"{len(steps)} compilations took {spent / 60:.0f} min: with --launcher ccache the same build again, also in"
        " another place, takes them from the cache."
    )
    return [(0.0, text)]
