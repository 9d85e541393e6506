"""``build.ninja``: which command makes what from what, and with which flags. Read as a stream.

Only what Rekindle asks of it: outputs, inputs, rule and the variables of each edge. Included files (CMake's rules) are
not followed, and ``$var`` in values is not evaluated, since CMake writes edges and flags out whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_BYTES = 512 << 20
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
    try:
        if path.stat().st_size > MAX_BYTES:
            return
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from parse_build_ninja(file)
    except OSError:
        return


def parse_build_ninja(lines: Iterable[str]) -> Iterator[BuildEdge]:
    edge: BuildEdge | None = None
    for line in _joined(lines):
        if line.startswith(" "):
            name, sign, value = line.strip().partition("=")
            if edge is not None and sign:
                edge.variables[name.strip()] = _plain(value.strip())
            continue
        if edge is not None:
            yield edge
            edge = None
        if line.startswith("build "):
            edge = _edge(line[6:])
    if edge is not None:
        yield edge


def _joined(lines: Iterable[str]) -> Iterator[str]:
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


def _edge(text: str) -> BuildEdge | None:
    words = _words(text)
    outputs: list[str] = []
    inputs: list[str] = []
    rule = ""
    for word in words:
        if not rule and word == ":":
            rule = "?"
        elif rule == "?":
            rule = word
        elif word in ("|", "||", "|@"):
            continue
        elif rule:
            inputs.append(word)
        else:
            outputs.append(word)
    if not rule or rule == "?":
        return None
    return BuildEdge(rule=rule, outputs=tuple(outputs), inputs=tuple(inputs))


def _words(text: str) -> list[str]:
    """Split at unescaped spaces and at the unescaped colon; unescape ``$ ``, ``$:`` and ``$$``."""
    if "$" not in text:
        head, colon, tail = text.partition(": ")
        return [*head.split(), *([":"] if colon else []), *tail.split()]
    return [_ESCAPED.sub(r"\1", word) for word in _WORD.findall(text)]


def _plain(value: str) -> str:
    return value.replace("$ ", " ").replace("$:", ":").replace("$$", "$") if "$" in value else value
