"""What earlier builds teach about each object, how much memory its compiler took and how long it ran; and how long this
build will still take by that.

Kept per project in the workspace's cache; a first build knows its giants by name from whole builds of torch
(usual_seconds.toml, written by benchmarks/time_left.py). The time left has two bounds, and the larger counts: all work
spread over the jobs that run at once, and the longest chain of steps that must follow one another (the critical path).
"""

import contextlib
import graphlib
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rekindle.formats.ninja import BuildEdge, file_name, latest, read_build_ninja, read_ninja_log
from rekindle.host.files import write_atomically
from rekindle.model.document import Document, encode, load_kept
from rekindle.model.toml import read_beside

MIB = 1 << 20
# PyTorch 1.13.1, CPU: median 0.48 GiB, 95 % below 0.97 GiB (measured). CUDA's files take several GiB each.
DEFAULT_BYTES = {"c": 200 * MIB, "cxx": 700 * MIB, "gpu": 2500 * MIB, "link": 700 * MIB, "other": 150 * MIB}
MARGIN = 1.08
# Work to have seen before this run's own pace counts.
ENOUGH_SECONDS = 60.0
# Seconds where nothing at all is known yet, so that the first guess is of the right order.
_GUESS = {"c": 1.0, "cxx": 8.0, "gpu": 60.0, "link": 4.0, "other": 1.0}


class History(Document, frozen=True, kw_only=True):
    """Object path (relative to the build tree) → (peak bytes, seconds)."""

    objects: dict[str, tuple[int, float]] = {}


def kind_of(output: str) -> str:
    """``gpu``, ``c``, ``cxx``, ``link`` or ``other``, by the file's name."""
    low = output.lower()
    if any(mark in low for mark in (".cu.o", ".hip.o", "_generated_", ".cu.obj")):
        return "gpu"
    if low.endswith((".c.o", ".c.obj", ".s.o")):
        return "c"
    if low.endswith((".o", ".obj", ".gch", ".pch")):
        return "cxx"
    if ".so" in low or low.endswith((".dll", ".dylib", ".a", ".lib", ".exe", ".pyd")):
        return "link"
    return "other"


class ObjectCosts:
    """What each object took, in memory and time: a history that one build goes on with."""

    def __init__(self, history: History) -> None:
        self._objects = dict(history.objects)
        self._by_kind: dict[str, list[int]] = {}
        for name, (peak, _) in self._objects.items():
            self._by_kind.setdefault(kind_of(name), []).append(peak)

    def expected(self, output: str) -> int:
        """Bytes this object's compiler will need at its peak, as far as anybody knows."""
        peak = self.peak(output)
        return int(peak * MARGIN) if peak else self.typical(kind_of(output))

    def typical(self, kind: str = "cxx") -> int:
        """Half of the known ones are smaller."""
        peaks = self._by_kind.get(kind, [])
        return DEFAULT_BYTES[kind] if len(peaks) < 4 else int(statistics.median(peaks))

    def peak(self, output: str) -> int | None:
        """The most it took in any build, in bytes; None where it was never seen."""
        return self._objects[output][0] if output in self._objects else None

    def larger_than(self, size: int) -> list[str]:
        """Objects whose compilers took more than ``size`` bytes."""
        return [output for output, (peak, _) in self._objects.items() if peak > size]

    def seconds(self, output: str) -> float | None:
        """How long it ran last; None where that is not known."""
        known = self._objects.get(output)
        return known[1] if known and known[1] > 0 else None

    def usual(self, output: str) -> float | None:
        """How long it ran last, or what a file of its name took where whole torches were built; None: not known."""
        name = file_name(output).removesuffix(".obj").removesuffix(".o")
        usual: dict[str, float] = read_beside(__file__, "usual_seconds.toml", dict[str, Any])["seconds"]
        return self.seconds(output) or usual.get(name)

    def record(self, output: str, peak: int, seconds: float) -> None:
        """A compiler that stopped early (a cache hit, a kill) must not teach a small size: the larger peak stays."""
        before, took = self._objects.get(output, (peak, 0.0))
        self._objects[output] = (max(peak, int(before * 0.9)), seconds or took)
        self._by_kind.setdefault(kind_of(output), []).append(peak)

    def history(self) -> History:
        return History(objects=dict(sorted(self._objects.items())))


@contextlib.contextmanager
def kept_history(path: Path) -> Iterator[ObjectCosts]:
    """What earlier builds taught (one that cannot be read taught nothing); what is learnt now is kept, however the
    build ends."""
    learnt = ObjectCosts(load_kept(path, History) or History())
    try:
        yield learnt
    finally:
        with contextlib.suppress(OSError):
            write_atomically(path, encode(learnt.history()))


class Estimate:
    """Made once when a build starts; ``finished`` removes what is done, ``left`` answers at any time."""

    def __init__(self, edges: Iterable[BuildEdge], learnt: ObjectCosts, done: Mapping[str, float]) -> None:
        self._made_by: dict[str, BuildEdge] = {}
        times: dict[str, list[float]] = {}
        for output, seconds in done.items():
            times.setdefault(kind_of(output), []).append(seconds)
        self._mean = {kind: statistics.fmean(each) for kind, each in times.items() if len(each) >= 3}
        # An alias last named where nothing else makes what it names.
        for edge in sorted(edges, key=lambda edge: edge.rule != "phony"):
            self._made_by |= dict.fromkeys(edge.outputs, edge)
        self._learnt = learnt
        self._open = {
            edge.outputs[0]: edge
            for edge in self._made_by.values()
            if edge.rule != "phony" and not any(output in done for output in edge.outputs)
        }
        self._inputs_first = _inputs_first(self._made_by)
        self._counted: tuple[int, float] | None = None
        self._finished_work = 0.0
        # As known before this run: what it learns itself must not change what it is held against.
        self._usual = {output: self.seconds(output) for output in self._open}

    def seconds(self, output: str) -> float:
        """How long one object will take, by what is known best."""
        usual, kind = self._learnt.usual(output), kind_of(output)
        return usual if usual is not None else self._mean.get(kind, _GUESS[kind])

    def finished(self, output: str) -> None:
        """Take off what is made now."""
        edge = self._made_by.get(output)
        if edge is not None and self._open.pop(edge.outputs[0], None) is not None:
            self._finished_work += self._usual[edge.outputs[0]]

    def work_left(self, steps_left: int) -> float:
        """Ninja may need only part of the graph: its own count of steps left bounds ours."""
        each = [self.seconds(output) for output in self._open]
        return statistics.fmean(each) * min(steps_left, len(each)) if each else 0.0

    def critical_path(self) -> float:
        """The longest chain of open steps; counted anew only after twenty more are done."""
        if self._counted is None or abs(self._counted[0] - len(self._open)) > 20:
            chains: dict[str, float] = {}
            for output in self._inputs_first:
                edge = self._made_by[output]
                before = max((chains.get(source, 0.0) for source in edge.inputs), default=0.0)
                chains[output] = before + (self.seconds(edge.outputs[0]) if edge.outputs[0] in self._open else 0.0)
            self._counted = (len(self._open), max((chains[output] for output in self._open), default=0.0))
        return self._counted[1]

    def left(self, *, jobs: int, steps_left: int, elapsed: float | None = None) -> float:
        """``elapsed``: the seconds this run took for what it has finished; they tell its pace."""
        expected = max(self.work_left(steps_left) / max(1, jobs), self.critical_path())
        usual = self._finished_work / max(1, jobs)
        if elapsed is None or usual < ENOUGH_SECONDS:
            return expected
        # This run beside what earlier ones took: below one with a hot compiler cache, above on a busy machine.
        return expected * min(max(elapsed / usual, 0.01), 20.0)


def _inputs_first(made_by: Mapping[str, BuildEdge]) -> list[str]:
    """What is made, each after what it is made of; in a graph with a cycle, which Ninja refuses, as it comes."""
    order = graphlib.TopologicalSorter({output: edge.inputs for output, edge in made_by.items()}).static_order()
    try:
        return [name for name in order if name in made_by]
    except graphlib.CycleError:
        return list(made_by)


def make_estimate(build_tree: Path, learnt: ObjectCosts) -> Estimate | None:
    """From the tree's build.ninja and log; None where there is no Ninja graph."""
    ninja = build_tree / "build.ninja"
    if not ninja.is_file():
        return None
    done = {name: edge.seconds for name, edge in latest(read_ninja_log(build_tree / ".ninja_log")).items()}
    return Estimate(read_build_ninja(ninja), learnt, done)
