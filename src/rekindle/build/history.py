"""What earlier builds teach about each object: how much memory its compiler took, how long it ran.

Kept per project as JSON in the workspace's cache, so the next build knows its giants before they start.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from rekindle.host.files import write_atomically
from rekindle.model.document import Document, encode, load_kept

MIB = 1 << 20
# PyTorch 1.13.1, CPU: median 0.48 GiB, 95 % below 0.97 GiB (measured). CUDA's files take several GiB each.
DEFAULT_BYTES = {"c": 200 * MIB, "cxx": 700 * MIB, "gpu": 2500 * MIB, "link": 700 * MIB, "other": 150 * MIB}
MARGIN = 1.08


class History(Document, frozen=True, kw_only=True):
    """Object path (relative to the build tree) → (peak bytes, seconds)."""

    objects: dict[str, tuple[int, float]] = {}


def kind_of(output: str) -> str:
    """The kind of step that makes ``output``, by its name."""
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


class Learnt:
    """Mutable view of a history during one build."""

    def __init__(self, history: History) -> None:
        self._objects = dict(history.objects)
        self._by_kind: dict[str, list[int]] = {}
        for name, (peak, _) in self._objects.items():
            self._by_kind.setdefault(kind_of(name), []).append(peak)

    def expected(self, output: str) -> int:
        """Bytes this object's compiler will need at its peak, as far as anybody knows."""
        if output in self._objects and self._objects[output][0]:
            return int(self._objects[output][0] * MARGIN)
        return self.typical(kind_of(output))

    def typical(self, kind: str = "cxx") -> int:
        """Half of the known ones are smaller."""
        known = self._by_kind.get(kind, [])
        if len(known) < 4:
            return DEFAULT_BYTES[kind]
        return int(statistics.median(known))

    def peak(self, output: str) -> int | None:
        """The most memory it ever took; None where that is not known."""
        found = self._objects.get(output)
        return found[0] if found else None

    def seconds(self, output: str) -> float | None:
        """How long it ran last; None where that is not known."""
        found = self._objects.get(output)
        return found[1] if found and found[1] > 0 else None

    def record(self, output: str, peak: int, seconds: float) -> None:
        """A compiler that stopped early (a cache hit, a kill) must not teach a small size: the larger peak stays."""
        before = self._objects.get(output, (0, 0.0))
        self._objects[output] = (max(peak, int(before[0] * 0.9)), seconds or before[1])
        self._by_kind.setdefault(kind_of(output), []).append(peak)

    def history(self) -> History:
        """All of it, to be kept."""
        return History(objects=dict(sorted(self._objects.items())))

    @property
    def known(self) -> int:
        """Of how many objects something is known."""
        return len(self._objects)


def load_history(path: Path) -> Learnt:
    """A history that cannot be read is no history."""
    return Learnt(load_kept(path, History) or History())


def save_history(path: Path, learnt: Learnt) -> None:
    """For the next build."""
    write_atomically(path, encode(learnt.history()))
