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
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_ADDRESS = rf"\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b){_OCTET}(?:\.{_OCTET}){{3}}\b(?![.\w])"
_NAMED = r"(?i)\b((?:api[_-]?key|token|passw(?:or)?d|secret|authorization|bearer)\b\s*[:= ]\s*)\S+"
_SECRETS = (
    (re.compile(r"(?i)\b(https?://)[^/\s:@]+:[^/\s@]+@"), r"\1redacted@"),
    (re.compile(_NAMED), r"\1redacted"),
    (re.compile(r"\b(?:hf|ghp|gho|ghs|github_pat|glpat|sk|pypi|xox[abp])[-_][A-Za-z0-9_-]{12,}\b"), "redacted-token"),
    (re.compile(r"\bAKIA[0-9A-Z]{12,}\b"), "redacted-token"),
    (re.compile(_ADDRESS), "redacted-address"),
    (re.compile(r"(?m)^([\w.-]+)@([\w.-]+)(?=[:~$# ])"), "user@host"),
)


def redact(text: str, redactor: Redactor) -> str:
    text = redactor.text(text)
    for pattern, substitute in _SECRETS:
        text = pattern.sub(substitute, text)
    return text


def make_report(chunks: Iterable[bytes], diagnosis: Diagnosis, redactor: Redactor, *, machine: str = "") -> str:
    """The report as text, bounded whatever the log's size."""
    found = ", ".join(f"{match.id} (line {match.line}, {match.confidence})" for match in diagnosis.matches) or "nothing"
    head = [f"rekindle {__version__} explain report", f"lines: {diagnosis.lines}", f"recognised: {found}"]
    if machine:
        head.append(f"machine: {machine}")
    body = "\n".join(f"{number:>8}  {line}" for number, line in _excerpt(_lines(chunks)))
    return redact("\n".join(head), redactor) + "\n\n" + redact(body, redactor) + "\n"


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
