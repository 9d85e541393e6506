"""``.ninja_log``: what Ninja ran, when and how long, across all its runs in a tree.

One line per output; an edge with several outputs has several lines with equal times and hash. Times are
milliseconds since the start of that Ninja run, so they restart at zero: a later line that starts before an
earlier one ended so long ago belongs to another run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 256 << 20
_OBJECTS = (".o", ".obj")
_TIME = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, kw_only=True)
class Edge:
    """One command Ninja finished. Milliseconds within ``run`` (0, 1, …)."""

    start: int
    end: int
    outputs: tuple[str, ...]
    hash: str
    run: int = 0

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1000


def read_ninja_log(path: Path) -> list[Edge]:
    """Edges in the order they ended. A log cut off by a crash is read up to where it is whole."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return []
        with path.open(encoding="utf-8", errors="replace") as file:
            return parse_ninja_log(file)
    except OSError:
        return []


def parse_ninja_log(lines: Iterable[str]) -> list[Edge]:
    edges: list[Edge] = []
    outputs: list[str] = []  # of the edge that is being read; a code generator has thousands
    before: tuple[int, int, str] | None = None
    run = 0
    last_end = 0
    for line in lines:
        fields = line.rstrip("\n").split("\t")
        # The head is "# ninja log v6"; a half-written last line has fewer fields or no newline.
        if len(fields) != 5 or not line.endswith("\n"):
            continue
        if not (_TIME.fullmatch(fields[0]) and _TIME.fullmatch(fields[1])):
            continue
        start, end, output, digest = int(fields[0]), int(fields[1]), fields[3], fields[4]
        if before == (start, end, digest):
            outputs.append(output)
            continue
        if before is not None:
            edges.append(Edge(start=before[0], end=before[1], outputs=tuple(outputs), hash=before[2], run=run))
        # Within a run lines come in the order of their ends; going back means Ninja was started anew.
        if end < last_end:
            run += 1
        last_end, before, outputs = end, (start, end, digest), [output]
    if before is not None:
        edges.append(Edge(start=before[0], end=before[1], outputs=tuple(outputs), hash=before[2], run=run))
    return edges


def latest(edges: Iterable[Edge]) -> dict[str, Edge]:
    """The last time each output was made."""
    return {output: edge for edge in edges for output in edge.outputs}


def has_objects(build_tree: Path) -> bool:
    """Has anything been compiled here? What configure itself compiles to try the compilers does not count."""
    logs = [build_tree / ".ninja_log", *build_tree.glob("temp.*/.ninja_log")]
    if any(output.endswith(_OBJECTS) for log in logs for output in latest(read_ninja_log(log))):
        return True
    # setuptools without Ninja keeps no log; its objects lie in a folder per Python.
    return any(path.suffix in _OBJECTS for folder in build_tree.glob("temp.*") for path in folder.rglob("*.o*"))
