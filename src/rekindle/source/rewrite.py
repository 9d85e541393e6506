"""Raises what CMake 4 refuses: ``cmake_minimum_required`` and ``cmake_policy(VERSION …)`` below 3.5.

Versions are compared as numbers (3.13 is above 3.5). A range such as ``3.1...3.18`` is fine where its upper
end is. Only the version itself changes: endings, comments and everything else stay as they are. Tests and
examples of third parties are left alone; they are not configured. Preferable to all of this, where one may
set it, is the environment variable CMAKE_POLICY_VERSION_MINIMUM=3.5: it needs no change at all.
"""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from rekindle.errors import BadInput
from rekindle.host.files import read_head
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import CMakeChange, CMakeRewrite
from rekindle.source import journal
from rekindle.source.journal import Edit
from rekindle.source.patches.engine import render_diff
from rekindle.source.paths import plain_files

_TOKEN = re.compile(
    rb"""
      (?P<bracket_comment>\#\[(?P<hashes>=*)\[.*?\](?P=hashes)\])
    | (?P<comment>\#[^\n]*)
    | (?P<bracket>\[(?P<equals>=*)\[.*?\](?P=equals)\])
    | (?P<quoted>"(?:[^"\\]|\\.)*")
    | (?P<open>\()
    | (?P<close>\))
    | (?P<space>[ \t\r\n]+)
    | (?P<word>(?:[^\s()\#"\\]|\\.)+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
FLOOR = "3.5"  # measured with CMake 4.4: "Compatibility with CMake < 3.5 has been removed"
MAX_FILE_BYTES = 16 << 20
QUIET_SECONDS = 1.0
_COMMANDS = frozenset({"cmake_minimum_required", "cmake_policy"})
_QUICK = re.compile(rb"(?i)cmake_(?:minimum_required|policy)\s*\(")
_VERSION = re.compile(rb"(\d+(?:\.\d+){0,3})(?:\.\.\.(\d+(?:\.\d+){0,3}))?$")
_CMAKE_FILE = re.compile(r"CMakeLists\.txt(?:\.in)?|.*\.cmake(?:\.in)?")
_SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", journal.FOLDER, "__pycache__", "node_modules"})
_TEST_FOLDERS = frozenset({"test", "tests", "testing", "unittests", "examples", "example", "samples"})
_THIRD_PARTIES = frozenset({"third_party", "third-party", "thirdparty", "3rdparty", "external", "vendor"})


class Word(NamedTuple):
    """An argument and where it stands; ``plain`` where it is neither quoted nor bracketed."""

    text: bytes
    start: int
    plain: bool = True


class Call(NamedTuple):
    """A command invocation. ``words`` is empty where the command was seen inside a string (``in_string``)."""

    name: str
    start: int
    words: tuple[Word, ...] = ()
    in_string: bool = False


def find_calls(content: bytes, names: frozenset[str]) -> Iterator[Call]:
    """Invocations of ``names`` (lower case; CMake does not care) in the order of the file."""
    inside_string = re.compile(rb"(?i)\b(" + b"|".join(sorted(name.encode() for name in names)) + rb")\s*\(")
    pending: re.Match[bytes] | None = None
    call: tuple[str, int, list[Word]] | None = None
    depth = 0
    for match in _TOKEN.finditer(content):
        if (kind := match.lastgroup) in ("space", "comment", "bracket_comment"):
            continue
        if kind in ("quoted", "bracket"):
            for inner in inside_string.finditer(match[0]):
                yield Call(inner[1].decode().lower(), match.start() + inner.start(), in_string=True)
        if kind == "open":
            name = pending[0].decode("latin-1").lower() if pending is not None else ""
            if pending is not None and depth == 0 and name in names:
                call = (name, pending.start(), [])
            depth += 1
        elif kind == "close":
            depth = max(depth - 1, 0)
            if depth == 0 and call is not None:
                yield Call(call[0], call[1], tuple(call[2]))
                call = None
        elif call is not None and kind in ("word", "quoted", "bracket"):
            call[2].append(Word(match[0], match.start(), kind == "word"))
        pending = match


def rewrite_cmake(
    root: Path, *, floor: str = FLOOR, dry_run: bool = False, progress: Progress | None = None
) -> CMakeRewrite:
    """Raise what CMake 4 refuses in every CMake file below ``root``, all or none; ``dry_run`` only tells.

    >>> found = rewrite_cmake(spark_tree, dry_run=True)
    >>> found.changes[0].before, found.changes[0].after
    ('3.0', '3.5')
    """
    root = root.resolve()
    if not root.is_dir():
        raise BadInput(f"{root} is not a directory", remedy="give the top of a source tree with --root DIR")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)*", floor):
        raise BadInput(f"{floor!r} is no CMake version", remedy="such as --minimum 3.5")
    progress = progress or Silent()
    had_folder = journal.folder(root).is_dir()
    if not dry_run and had_folder:
        with journal.locked(root):
            journal.repair(root)
    changes: list[CMakeChange] = []
    left: list[CMakeChange] = []
    edits: list[Edit] = []
    read, began = 0, time.monotonic()
    files = plain_files(root, _SKIPPED_FOLDERS.__contains__)
    for read, path in enumerate((path for path in files if _CMAKE_FILE.fullmatch(path.name)), 1):
        inside = path.relative_to(root)
        name, content = inside.as_posix(), _read(path)
        if time.monotonic() - began > QUIET_SECONDS:
            progress.step(read, None, f"{len(changes)} found; {inside}")
        if content is None or not _QUICK.search(content):
            continue
        new, changed, kept = raise_versions(content, name, floor)
        left += kept
        folders = iter([part.lower() for part in inside.parts[:-1]])
        # The second search goes on behind the first.
        is_theirs = any(part in _THIRD_PARTIES for part in folders) and any(part in _TEST_FOLDERS for part in folders)
        if changed and is_theirs:
            why = "a third party's test or example, not configured"
            left += [msgspec.structs.replace(change, after=None, why=why) for change in changed]
        elif changed:
            changes += changed
            edits.append(Edit(name, content, new))
    diff = render_diff(edits) if dry_run else None
    if edits and not dry_run:
        with journal.locked(root):
            journal.commit(root, edits, journal.read_record(root))
        if not had_folder:
            shutil.rmtree(journal.folder(root), ignore_errors=True)
    return CMakeRewrite(
        root=str(root), dry_run=dry_run, files_read=read, changes=tuple(changes), left=tuple(left), diff=diff
    )


def raise_versions(content: bytes, name: str, floor: str = FLOOR) -> tuple[bytes, list[CMakeChange], list[CMakeChange]]:
    """The new content, what was raised in it, and what was seen and could not be judged."""
    changed: list[CMakeChange] = []
    left: list[CMakeChange] = []
    pieces: list[bytes] = []
    end = 0
    for call in find_calls(content, _COMMANDS):
        line = content[: call.start].count(b"\n") + 1
        if call.in_string:
            text = content[call.start : call.start + 80].split(b"\n")[0].decode("utf-8", "replace")
            left.append(CMakeChange(file=name, line=line, before=text, why="inside a string"))
            continue
        # The word after VERSION; ``cmake_policy(SET …)`` and the like have none.
        if len(call.words) < 2 or call.words[0].text.upper() != b"VERSION":
            continue
        word = call.words[1]
        shown = word.text.decode("utf-8", "replace")
        match = _VERSION.match(word.text) if word.plain else None
        if match is None:
            left.append(CMakeChange(file=name, line=line, before=shown, why="not a plain version number"))
            continue
        low, high = match.groups()
        if _numbers(high or low) >= _numbers(floor.encode()):
            continue
        new = low + b"..." + floor.encode() if high else floor.encode()
        pieces += [content[end : word.start], new]
        end = word.start + len(word.text)
        changed.append(CMakeChange(file=name, line=line, before=shown, after=new.decode()))
    return b"".join(pieces) + content[end:], changed, left


def _numbers(version: bytes) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(b".")]
    return tuple(parts + [0] * (4 - len(parts)))


def _read(path: Path) -> bytes | None:
    try:
        content = read_head(path, MAX_FILE_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_FILE_BYTES else None
