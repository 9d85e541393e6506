"""How long a build will still take: the work that is left, by what earlier builds took for each object.

Two bounds, and the larger counts: all remaining work spread over the jobs that run at once, and the longest
chain of steps that must follow one another (the critical path).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path

from rekindle.build.history import Learnt, kind_of
from rekindle.formats.build_ninja import BuildEdge, read_build_ninja
from rekindle.formats.ninja_log import latest, read_ninja_log

# Work to have seen before this run's own pace counts.
ENOUGH_SECONDS = 60.0
# Seconds where nothing at all is known yet, so that the first guess is of the right order.
_GUESS = {"c": 1.0, "cxx": 8.0, "gpu": 60.0, "link": 4.0, "other": 1.0}


class Estimate:
    """Made once when a build starts; ``finished`` removes what is done, ``left`` answers at any time."""

    def __init__(self, edges: Iterable[BuildEdge], learnt: Learnt, done: Mapping[str, float]) -> None:
        self._made_by: dict[str, BuildEdge] = {}
        # By kind: how many were timed, and their seconds together. Asked for each open object every few seconds.
        self._known: dict[str, tuple[int, float]] = {}
        for output, seconds in done.items():
            self._timed(output, seconds)
        for edge in edges:
            if edge.rule == "phony":
                for output in edge.outputs:
                    self._made_by.setdefault(output, edge)
                continue
            for output in edge.outputs:
                self._made_by[output] = edge
        self._learnt = learnt
        self._open = {
            edge.outputs[0]: edge
            for edge in self._made_by.values()
            if edge.rule != "phony" and not any(output in done for output in edge.outputs)
        }
        self._paths: dict[str, float] = {}
        self._counted: tuple[int, float] | None = None
        self._finished_work = 0.0
        # As known before this run: what it learns itself must not change what it is held against.
        self._usual = {output: self.seconds(output) for output in self._open}

    def seconds(self, output: str) -> float:
        learnt = self._learnt.seconds(output)
        if learnt is not None:
            return learnt
        kind = kind_of(output)
        count, total = self._known.get(kind, (0, 0.0))
        return total / count if count >= 3 else _GUESS[kind]

    def _timed(self, output: str, seconds: float) -> None:
        kind = kind_of(output)
        count, total = self._known.get(kind, (0, 0.0))
        self._known[kind] = (count + 1, total + seconds)

    def finished(self, output: str, seconds: float | None = None) -> None:
        edge = self._made_by.get(output)
        if edge is not None and self._open.pop(edge.outputs[0], None) is not None:
            self._finished_work += self._usual[edge.outputs[0]]
        if seconds:
            self._timed(output, seconds)

    def work_left(self, steps_left: int) -> float:
        """Ninja may need only part of the graph: its own count of steps left bounds ours."""
        each = [self.seconds(output) for output in self._open]
        return statistics.fmean(each) * min(steps_left, len(each)) if each else 0.0

    def critical_path(self) -> float:
        """The longest chain of open steps; counted anew only after twenty more are done."""
        if self._counted is None or abs(self._counted[0] - len(self._open)) > 20:
            self._paths = {}
            self._counted = (len(self._open), max((self._path(output) for output in self._open), default=0.0))
        return self._counted[1]

    def _path(self, output: str) -> float:
        """Depth-first without recursion: graphs are deep in places. A cycle (never valid) counts once."""
        stack, entered = [output], set()
        while stack:
            name = stack[-1]
            edge = self._made_by.get(name)
            if name in self._paths or edge is None:
                self._paths.setdefault(name, 0.0)
                stack.pop()
                continue
            if name not in entered:
                entered.add(name)
                stack.extend(edge.inputs)
                continue
            before = max((self._paths.get(wanted, 0.0) for wanted in edge.inputs), default=0.0)
            own = self.seconds(edge.outputs[0]) if edge.outputs[0] in self._open else 0.0
            for each in edge.outputs:
                self._paths[each] = before + own
            stack.pop()
        return self._paths[output]

    def left(self, *, jobs: int, steps_left: int, elapsed: float | None = None) -> float:
        """``elapsed``: the seconds this run took for what it has finished; they tell its pace."""
        expected = max(self.work_left(steps_left) / max(1, jobs), self.critical_path())
        return expected * self._pace(elapsed, jobs)

    def _pace(self, elapsed: float | None, jobs: int) -> float:
        """This run beside what earlier ones took: below one with a hot compiler cache, above on a busy machine."""
        usual = self._finished_work / max(1, jobs)
        if elapsed is None or usual < ENOUGH_SECONDS:
            return 1.0
        return min(max(elapsed / usual, 0.01), 20.0)


def make_estimate(build_tree: Path, learnt: Learnt) -> Estimate | None:
    """From the tree's build.ninja and log; None where there is no Ninja graph."""
    ninja = build_tree / "build.ninja"
    if not ninja.is_file():
        return None
    done = {name: edge.seconds for name, edge in latest(read_ninja_log(build_tree / ".ninja_log")).items()}
    return Estimate(read_build_ninja(ninja), learnt, done)
