"""Applies a ``FileDiff`` to a file's bytes in memory: the new bytes, or why not. Touches no disk.

Context must match in full (no fuzz); a hunk may have moved, and the nearest place counts. A file whose
lines end in CRLF takes a patch written with LF and keeps its endings. ``git apply`` is the oracle in tests.
"""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.source.patches.diff import FileDiff, Hunk, split_lines


class Mismatch(Exception):
    """The diff does not fit these bytes; the text says where."""


def apply_diff(diff: FileDiff, content: bytes | None) -> bytes | None:
    """``content`` after the diff. None stands for "no such file", before and after."""
    if diff.creates:
        if content is not None:
            raise Mismatch(f"{diff.path} exists already")
        return b"".join(diff.hunks[0].after)
    if content is None:
        raise Mismatch(f"{diff.path} is not in the tree")
    lines = split_lines(content)
    crlf = uses_crlf(content)
    shift = 0
    floor = 0
    for number, hunk in enumerate(diff.hunks, 1):
        at, fitted = _place(hunk, lines, shift, floor, crlf)
        if at is None:
            raise Mismatch(f"hunk {number} (line {hunk.start}) does not fit {diff.path}")
        lines[at : at + len(fitted.before)] = fitted.after
        shift = at - _index(hunk) + len(fitted.after) - len(fitted.before)
        floor = at + len(fitted.after)
    if diff.deletes:
        if lines:
            raise Mismatch(f"{diff.path} is to be deleted but has other content")
        return None
    return b"".join(lines)


def fits(diff: FileDiff, content: bytes | None) -> bool:
    try:
        apply_diff(diff, content)
    except Mismatch:
        return False
    return True


def uses_crlf(content: bytes) -> bool:
    """True where most lines end in CRLF."""
    return content.count(b"\r\n") * 2 > content.count(b"\n")


def _index(hunk: Hunk) -> int:
    # "@@ -5,0 +6,2 @@" inserts after line 5: an empty side counts from the line before.
    return hunk.start if not hunk.before else max(hunk.start - 1, 0)


def _place(hunk: Hunk, lines: list[bytes], shift: int, floor: int, crlf: bool) -> tuple[int | None, Hunk]:
    for candidate in (hunk, _with_crlf(hunk)) if crlf else (hunk,):
        for at in _nearest(_index(hunk) + shift, floor, len(lines) - len(candidate.before)):
            if _matches(candidate, lines, at):
                return at, candidate
    return None, hunk


def _matches(hunk: Hunk, lines: list[bytes], at: int) -> bool:
    size = len(hunk.before)
    if size and lines[at] != hunk.before[0]:
        return False
    return tuple(lines[at : at + size]) == hunk.before


def _nearest(expected: int, lowest: int, highest: int) -> Iterator[int]:
    """Every index from ``lowest`` to ``highest``, the ones near ``expected`` first."""
    if highest < lowest:
        return
    middle = min(max(expected, lowest), highest)
    yield middle
    for distance in range(1, highest - lowest + 1):
        if middle - distance >= lowest:
            yield middle - distance
        if middle + distance <= highest:
            yield middle + distance


def _with_crlf(hunk: Hunk) -> Hunk:
    def crlf(side: tuple[bytes, ...]) -> tuple[bytes, ...]:
        return tuple(
            line[:-1] + b"\r\n" if line.endswith(b"\n") and not line.endswith(b"\r\n") else line for line in side
        )

    return Hunk(hunk.start, crlf(hunk.before), crlf(hunk.after))
