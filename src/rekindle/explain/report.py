"""A copy of a log that can be shown to strangers: what matters of it, without names, addresses and secrets.

Kept are the beginning, the end and the lines around trouble, at most a few hundred kilobytes.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator

from rekindle import __version__
from rekindle.explain.reading import plain_lines
from rekindle.host.redact import Redactor
from rekindle.model.diagnosis import Diagnosis

HEAD_LINES = 40
TAIL_LINES = 200
AROUND_LINES = 4
MAX_TROUBLE = 150
MAX_LINE = 400

_TROUBLE = re.compile(
    r"error|fatal|failed|undefined|cannot|could not|not found|no such|abort|killed|illegal", re.IGNORECASE
)


def make_report(chunks: Iterable[bytes], diagnosis: Diagnosis, redactor: Redactor, *, machine: str = "") -> str:
    """The report as text, bounded whatever the log's size."""
    found = ", ".join(f"{match.id} (line {match.line}, {match.confidence})" for match in diagnosis.matches) or "nothing"
    head = [f"rekindle {__version__} explain report", f"lines: {diagnosis.lines}", f"recognised: {found}"]
    if machine:
        head.append(f"machine: {machine}")
    body = "\n".join(f"{number:>8}  {line}" for number, line in _excerpt(_lines(chunks)))
    return redactor.text("\n".join(head)) + "\n\n" + redactor.text(body) + "\n"


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for block in plain_lines(chunks):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line[:MAX_LINE].decode("utf-8", "replace")
        rest = rest[: 4 * MAX_LINE]
    if rest:
        yield rest[:MAX_LINE].decode("utf-8", "replace")


def _excerpt(lines: Iterable[str]) -> list[tuple[int, str]]:
    kept: dict[int, str] = {}
    tail: collections.deque[tuple[int, str]] = collections.deque(maxlen=TAIL_LINES)
    trouble = 0
    until = HEAD_LINES
    for number, line in enumerate(lines, start=1):
        if trouble < MAX_TROUBLE and _TROUBLE.search(line):
            trouble += 1
            kept.update(list(tail)[-AROUND_LINES:])
            until = max(until, number + AROUND_LINES)
        if number <= until:
            kept[number] = line
        tail.append((number, line))
    kept.update(tail)
    return sorted(kept.items())
