"""Just enough of CMake's language to find a command's arguments and the exact bytes they stand on.

``find_calls`` yields every invocation of the wanted commands outside comments and strings, and says which
quoted or bracketed text holds one too (a project written out by ``file(WRITE …)``), so nobody rewrites those
by accident. https://cmake.org/cmake/help/latest/manual/cmake-language.7.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Word:
    """An argument and where it stands; ``plain`` where it is neither quoted nor bracketed."""

    text: bytes
    start: int
    plain: bool = True


@dataclass(frozen=True)
class Call:
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
        kind = next(name for name in _KINDS if match[name] is not None)
        if kind in ("space", "comment", "bracket_comment"):
            continue
        if kind in ("quoted", "bracket"):
            for found in inside_string.finditer(match[0]):
                yield Call(found[1].decode().lower(), match.start() + found.start(), in_string=True)
        if kind == "open":
            if depth == 0 and pending is not None and pending[0].decode("latin-1").lower() in names:
                call = (pending[0].decode("latin-1").lower(), pending.start(), [])
            depth += 1
        elif kind == "close":
            depth = max(depth - 1, 0)
            if depth == 0 and call is not None:
                yield Call(call[0], call[1], tuple(call[2]))
                call = None
        elif call is not None and kind in ("word", "quoted", "bracket"):
            call[2].append(Word(match[0], match.start(), kind == "word"))
        pending = match if kind == "word" and depth == 0 else None


_KINDS = ("bracket_comment", "comment", "bracket", "quoted", "open", "close", "space", "word", "other")
