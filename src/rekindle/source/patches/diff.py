"""Reads a unified diff, as ``git diff`` and ``diff -u`` write it, into ``FileDiff`` and ``Hunk`` values.

Everything is bytes: a patch must come out of a tree exactly as it went in, whatever a file's encoding.
Renames, copies and binary hunks are refused: reversing them byte for byte is not in a text diff's power.
"""

import re
from dataclasses import dataclass

from rekindle.errors import BadInput

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_REFUSED = (b"rename ", b"copy ", b"similarity index", b"GIT binary patch", b"Binary files ")
_NO_NEWLINE = b"\\ No newline"


@dataclass(frozen=True)
class Hunk:
    """``before`` and ``after`` are whole lines, with their newlines; ``start`` counts from 1 in the old file."""

    start: int
    before: tuple[bytes, ...]
    after: tuple[bytes, ...]

    def reversed(self, shift: int) -> "Hunk":
        """The way back, where hunks before it moved the lines by ``shift``."""
        return Hunk(max(self.start + shift, 0), self.after, self.before)


@dataclass(frozen=True)
class FileDiff:
    """What happens to one file. ``creates``/``deletes`` where the other side is /dev/null."""

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False
    executable: bool = False

    def reversed(self) -> "FileDiff":
        """What takes it out again."""
        shift, hunks = 0, []
        for hunk in self.hunks:
            hunks.append(hunk.reversed(shift))
            shift += len(hunk.after) - len(hunk.before)
        return FileDiff(self.path, tuple(hunks), self.deletes, self.creates, self.executable)


def read_diff(raw: bytes, *, origin: str) -> tuple[FileDiff, ...]:
    """All files of a diff, in order. A damaged diff is :class:`BadInput` that names the line."""
    lines = split_lines(raw)
    files: list[FileDiff] = []
    executable = False
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith(_REFUSED):
            raise BadInput(f"{origin}:{index + 1} renames, copies or changes a binary file; a patch here is text only")
        if line.startswith((b"new file mode ", b"new mode ", b"deleted file mode ")):
            executable = line.strip().endswith(b"755")
        if line.startswith(b"--- ") and index + 1 < len(lines) and lines[index + 1].startswith(b"+++ "):
            old, new = _name(line, origin, index), _name(lines[index + 1], origin, index + 1)
            index, hunks = _read_hunks(lines, index + 2, origin)
            files.append(_file(old, new, hunks, executable, f"{origin}:{index}"))
            executable = False
            continue
        if line.startswith(b"@@ "):
            raise BadInput(f"{origin}:{index + 1} is a hunk without the '---' and '+++' lines before it")
        index += 1
    if not files:
        raise BadInput(f"{origin} holds no diff", remedy="write it with 'git diff' or 'diff -u'")
    return tuple(files)


def split_lines(raw: bytes) -> list[bytes]:
    """Lines with their newlines. (``bytes.splitlines`` also breaks at a lone \\r, which is content here.)"""
    return re.findall(rb"[^\n]*\n|[^\n]+", raw)


def _name(line: bytes, origin: str, index: int) -> str | None:
    name = line[4:].rstrip(b"\r\n").split(b"\t")[0].strip()
    if name == b"/dev/null":
        return None
    if name.startswith(b'"'):
        raise BadInput(f"{origin}:{index + 1} names a file in quotes; plain names only")
    try:
        text = name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{origin}:{index + 1} names a file that is not UTF-8") from error
    return text.split("/", 1)[1] if text.startswith(("a/", "b/")) else text


def _file(old: str | None, new: str | None, hunks: tuple[Hunk, ...], executable: bool, where: str) -> FileDiff:
    path = new or old
    if path is None or (old and new and old != new):
        raise BadInput(f"{where} changes {old} into {new}; a patch here keeps names")
    if not hunks:
        raise BadInput(f"{where} has no hunk for {path}")
    if (old is None or new is None) and len(hunks) != 1:
        raise BadInput(f"{where} creates or deletes {path} in more than one hunk")
    return FileDiff(path, hunks, creates=old is None, deletes=new is None, executable=executable)


def _read_hunks(lines: list[bytes], index: int, origin: str) -> tuple[int, tuple[Hunk, ...]]:
    hunks: list[Hunk] = []
    while index < len(lines) and (match := _HUNK.match(lines[index])):
        start = int(match[1])
        want_before, want_after = (int(match[n]) if match[n] else 1 for n in (2, 4))
        index += 1
        where = index
        before: list[bytes] = []
        after: list[bytes] = []
        last: tuple[list[bytes], ...] = ()
        while index < len(lines) and (
            len(before) < want_before or len(after) < want_after or lines[index].startswith(_NO_NEWLINE)
        ):
            line = lines[index]
            index += 1
            if line.startswith(_NO_NEWLINE):
                for side in last:
                    side[-1] = side[-1].removesuffix(b"\n")
                continue
            sign, text = line[:1], line[1:]
            # Editors strip the lone space of an empty context line; diff and git accept that, so do we.
            if line in (b"\n", b"\r\n"):
                sign, text = b" ", line
            last = {b" ": (before, after), b"-": (before,), b"+": (after,)}.get(sign, ())
            if not last:
                raise BadInput(f"{origin}:{index} does not belong into a hunk: {line[:40]!r}")
            for side in last:
                side.append(text)
        if (len(before), len(after)) != (want_before, want_after):
            raise BadInput(f"{origin}:{where} announces {want_before} and {want_after} lines and has other numbers")
        hunks.append(Hunk(start, tuple(before), tuple(after)))
    return index, tuple(hunks)
