"""Longest first: files that take minutes must not be the last to start, with every other core idle.

Ninja starts what is ready in the order of the statements in build.ninja (among steps that are equally far from the
end), and knows nothing of how long each takes. So the statements of known giants are moved to the front: those an
earlier build measured, and, for a first build, those that were measured elsewhere.
"""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path

from rekindle.build.history import Learnt
from rekindle.host.files import write_atomically

GIANT_SECONDS = 20.0
MAX_BYTES = 256 << 20
_OBJECT = re.compile(r"build ((?:[^:$ ]|\$.)+\.(?:o|obj))(?: [^:]*)?: ")


def giants_first(build_tree: Path, learnt: Learnt) -> int:
    """Reorder ``build.ninja``; how many statements were moved. Again changes nothing."""
    path = build_tree / "build.ninja"
    try:
        if path.stat().st_size > MAX_BYTES:
            return 0
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines(keepends=True)
    except OSError:
        return 0
    first = next((number for number, line in enumerate(lines) if line.startswith("build ")), None)
    if first is None:
        return 0
    blocks: list[tuple[float, int, int]] = []
    for number, line in enumerate(lines):
        match = _OBJECT.match(line)
        if match and (seconds := _seconds(match[1], learnt)) >= GIANT_SECONDS:
            blocks.append((-seconds, number, _end(lines, number)))
    blocks.sort()
    moved = [line for _, begin, end in blocks for line in lines[begin:end]]
    gone = {number for _, begin, end in blocks for number in range(begin, end)}
    kept_before = lines[:first]
    rest = [line for number, line in enumerate(lines) if number >= first and number not in gone]
    text = "".join([*kept_before, *moved, *rest])
    if text != "".join(lines):
        write_atomically(path, text.encode("utf-8", "surrogateescape"))
    return len(blocks)


def _end(lines: list[str], begin: int) -> int:
    """A statement ends where a line is neither indented nor continues the one before ($ at its end)."""
    end = begin + 1
    while end < len(lines) and (lines[end].startswith(" ") or lines[end - 1].endswith("$\n")):
        end += 1
    return end


def _seconds(output: str, learnt: Learnt) -> float:
    measured = learnt.seconds(output.replace("$ ", " ").replace("$:", ":"))
    if measured is not None:
        return measured
    name = output.rsplit("/", 1)[-1].removesuffix(".obj").removesuffix(".o")
    return _known().get(name, 0.0)


@functools.cache
def _known() -> dict[str, float]:
    raw = tomllib.loads((Path(__file__).parent / "giants.toml").read_text(encoding="utf-8"))
    return {name: float(seconds) for name, seconds in raw["seconds"].items()}
