"""Ninja's two files in a build tree, read as streams and within bounds.

``.ninja_log``: what Ninja ran, when and how long, across all its runs. One line per output; an edge with several
outputs has several lines with equal times and hash. Times are milliseconds since the start of that run, so they restart
at zero: a later line that starts before an earlier one ended so long ago belongs to another run.

``build.ninja``: which command makes what from what, and with which flags. Included files (CMake's rules) are not
followed, and ``$var`` in values is not evaluated, since CMake writes edges and flags out whole.
"""

import contextlib
import itertools
import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rekindle.formats.view import read_lines

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
        """How long it took."""
        return (self.end - self.start) / 1000


def read_ninja_log(path: Path) -> list[Edge]:
    """Edges in the order they ended. A log cut off by a crash is read up to where it is whole."""
    with contextlib.suppress(OSError):
        return parse_ninja_log(read_lines(path, MAX_BYTES))
    return []


def parse_ninja_log(lines: Iterable[str]) -> list[Edge]:
    """The same of lines."""
    edges: list[Edge] = []
    run = last_end = 0
    for (start, end, digest), rows in itertools.groupby(_log_rows(lines), key=operator.itemgetter(0)):
        # Within a run lines come in the order of their ends; going back means Ninja was started anew.
        run += end < last_end
        last_end = end
        edges.append(Edge(start=start, end=end, outputs=tuple(output for _, output in rows), hash=digest, run=run))
    return edges


def _log_rows(lines: Iterable[str]) -> Iterator[tuple[tuple[int, int, str], str]]:
    """((start, end, hash), output) of each line that is whole."""
    for line in lines:
        fields = line.rstrip("\n").split("\t")
        # The head is "# ninja log v6"; a half-written last line has fewer fields or no newline.
        if len(fields) == 5 and line.endswith("\n") and all(map(_TIME.fullmatch, fields[:2])):
            yield (int(fields[0]), int(fields[1]), fields[4]), fields[3]


def latest(edges: Iterable[Edge]) -> dict[str, Edge]:
    """For each output the last edge that made it."""
    return {output: edge for edge in edges for output in edge.outputs}


def file_name(output: str) -> str:
    """An output without its folders, on whatever system it was made."""
    return output.replace("\\", "/").rsplit("/", 1)[-1]


def has_objects(build_tree: Path) -> bool:
    """Has anything been compiled here? What configure itself compiles to try the compilers does not count."""
    logs = [build_tree / ".ninja_log", *build_tree.glob("temp.*/.ninja_log")]
    if any(output.endswith(_OBJECTS) for log in logs for output in latest(read_ninja_log(log))):
        return True
    # setuptools without Ninja keeps no log; its objects lie in a folder per Python.
    return any(path.suffix in _OBJECTS for folder in build_tree.glob("temp.*") for path in folder.rglob("*.o*"))


MAX_MANIFEST_BYTES = 512 << 20
_WORD = re.compile(r"(?:[^$ :]|\$.)+|:", re.DOTALL)
_ESCAPED = re.compile(r"\$(.)", re.DOTALL)


@dataclass(kw_only=True)
class BuildEdge:
    """``inputs`` holds explicit, implicit and order-only ones: all must be there before it runs."""

    rule: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


def read_build_ninja(path: Path) -> Iterator[BuildEdge]:
    """The edges of a file; none where it cannot be read."""
    with contextlib.suppress(OSError):
        yield from parse_build_ninja(read_lines(path, MAX_MANIFEST_BYTES))


def parse_build_ninja(lines: Iterable[str]) -> Iterator[BuildEdge]:
    """The same of lines."""
    edge: BuildEdge | None = None
    for line in itertools.chain(_join_lines(lines), [""]):
        if line.startswith(" "):
            name, sign, value = line.strip().partition("=")
            if edge is not None and sign:
                plain = value.strip().replace("$ ", " ").replace("$:", ":").replace("$$", "$")
                edge.variables[name.strip()] = plain
            continue
        if edge is not None:
            yield edge
        edge = None
        words = [word for word in _split_words(line[6:]) if word not in ("|", "||", "|@")]
        if line.startswith("build ") and ":" in words[:-1]:
            colon = words.index(":")
            inputs = tuple(words[colon + 2 :])
            edge = BuildEdge(rule=words[colon + 1], outputs=tuple(words[:colon]), inputs=inputs)


def _join_lines(lines: Iterable[str]) -> Iterator[str]:
    """Logical lines: ``$`` at the end continues."""
    rest = ""
    for raw in lines:
        # What continues a line may be indented; Ninja leaves that out.
        line = rest + (raw.lstrip(" ") if rest else raw).rstrip("\r\n")
        if (len(line) - len(line.rstrip("$"))) % 2:
            rest = line[:-1]
            continue
        rest = ""
        yield line


def _split_words(text: str) -> list[str]:
    """Split at unescaped spaces and at the unescaped colon; unescape ``$ ``, ``$:`` and ``$$``."""
    if "$" not in text:
        head, colon, tail = text.partition(": ")
        return [*head.split(), *([":"] if colon else []), *tail.split()]
    return [_ESCAPED.sub(r"\1", word) for word in _WORD.findall(text)]
