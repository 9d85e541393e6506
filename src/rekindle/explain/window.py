"""The text around a word, freed from framing, so that one regex serves however the line was carried.

Docker step numbers, compose names, MSBuild project numbers, pytest margins, CI time stamps and pip's indentation are
taken off each line; curly and slanted quotes become plain ones; white space collapses, which also repairs messages that
a terminal or a compiler wrapped.
"""

from __future__ import annotations

import re

MAX_LINE_BYTES = 2000

_FRAME = re.compile(
    r"""^\s*(?:
        \#\d+\ +\d+\.\d+(?:\s+|$)                      # docker buildkit: "#14 31.08 "
      | \d+>(?:\s*\d+>)?(?:\s*\[CMake\])?              # MSBuild: "6>", "1> [CMake]"
      | >\s                                             # quoted in a mail or a thread
      | \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z(?:\s|$) # CI logs
      | (?:stdout|stderr)\ [FP]\s                        # container runtimes, after the time
      | [A-Z][a-z]{2}\ [\d ]\d\ \d\d:\d\d:\d\d\ \S{1,60}\ \S{1,60}\[\d+\]:(?:\s|$)  # the journal
      | [\w.-]{1,40}\s*\|(?:\s|$)                       # compose: "webui_1  | "
      | E\s{2,}                                         # pytest
      | \|\s+                                           # tox, cargo-like margins
      | \[(?:pod|stdout|stderr|rank\d+|\d+)\]:?\s       # launchers
      | \[[\w.-]{1,30}/(?:STDERR|STDOUT)\]\s            # process managers
      | \[\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?\]\s  # loggers with a time in brackets
      | \d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d(?:[.,]\d+)?\s+(?:INFO|ERROR|WARNING|DEBUG)\s  # Python's logging
      | \([\w -]{1,40}\ pid=\d+\)\s                    # Ray, vLLM workers
      | (?:ERROR|INFO|WARNING)\ \d\d-\d\d\ \d\d:\d\d:\d\d\ \[?[\w./]+:\d+\]\s  # vLLM
      | cargo:warning=                                  # build scripts of Rust
    )+""",
    re.VERBOSE,
)
# Words beyond this length (mangled names, encoded data) lose their middle: a pattern that looks for the beginning
# of a word would otherwise try every place in it.
_LONG_WORD = re.compile(r"(\S{200})\S{40,}(\S{120})")
_QUOTES = str.maketrans("‘’`´「」‚“”«»„", "'" * 7 + '"' * 5)


def line_bounds(block: bytes, position: int) -> tuple[int, int]:
    """Begin and end of the line at a position; overlong lines are cut around it."""
    begin = block.rfind(b"\n", max(0, position - MAX_LINE_BYTES), position) + 1
    begin = begin or max(0, position - MAX_LINE_BYTES)
    end = block.find(b"\n", position, position + 2 * MAX_LINE_BYTES)
    return begin, end if end >= 0 else min(len(block), position + 2 * MAX_LINE_BYTES)


def window(block: bytes, position: int, *, before: int, lines: int) -> str:
    """The flat text of ``before`` lines, the line at ``position`` and ``lines - 1`` more."""
    begin, end = line_bounds(block, position)
    for _ in range(before):
        if begin == 0:
            break
        begin, _end = line_bounds(block, begin - 1)
    for _ in range(lines - 1):
        if end >= len(block):
            break
        _begin, end = line_bounds(block, end + 1)
    return flatten(block[begin:end].decode("utf-8", "replace"))


def flatten(text: str) -> str:
    parts = (_FRAME.sub("", _LONG_WORD.sub(r"\1…\2", line)) for line in text.translate(_QUOTES).split("\n"))
    return " ".join(" ".join(parts).split())


def head(block: bytes, position: int) -> str:
    """How the line begins: what a logger puts there, which the evidence of a long line leaves out."""
    begin, end = line_bounds(block, position)
    return block[begin : min(end, begin + 60)].decode("utf-8", "replace").strip()


def evidence(block: bytes, position: int) -> str:
    """The line itself, for people: trimmed, at most 300 characters around the word."""
    begin, end = line_bounds(block, position)
    line = block[begin:end].decode("utf-8", "replace")
    at = len(block[begin:position].decode("utf-8", "replace"))
    if len(line) > 300:
        cut = max(0, min(at - 60, len(line) - 300))
        line = ("…" if cut else "") + line[cut : cut + 300] + ("…" if cut + 300 < len(line) else "")
    return line.strip()
