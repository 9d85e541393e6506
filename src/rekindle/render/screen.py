"""The terminal as a place to write on: colour only where it is wanted, wrapped to its width. Human text is made of few
things: a verdict, sections, aligned rows, commands to paste. Each view writes them through ``Screen`` so that all verbs
look alike. (The library rich would cost 60 ms to import.)"""

from __future__ import annotations

import importlib
import itertools
import os
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rekindle.model.diagnosis import Match

# The name by which Rekindle was called, set by the scripts of a clone, whose folder is on nobody's PATH. What is
# written for other machines (scripts, documents, pages) says ``rekindle``.
CALLED_AS = "REKINDLE_CALLED_AS"
# The program's name in front of a verb or an option; where sentences speak of it, it is Rekindle.
_COMMAND = re.compile(r"(?<![\w./\\-])(?<!-m )rekindle(?= (?:[a-z]|--|VERB))")
_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
MARKS = {"ok": ("✓", "green"), "warn": ("!", "yellow"), "fail": ("✗", "red"), "skip": ("–", "dim")}
# Set by terminals that take OSC 8: GNOME's and its kin, Windows Terminal, kitty, Konsole, WezTerm, iTerm2.
_LINKING = ("VTE_VERSION", "WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "WEZTERM_PANE", "ITERM_SESSION_ID")
_NARROWEST = 20  # columns that a wrapped last column must have
_ASCII_MARKS = {"✓": "+", "✗": "x", "–": "-"}
_ASCII_SIGNS = {"→": "->", "…": "...", "–": "-", "—": "-", "·": "|", "≥": ">=", "≤": "<=", "×": "x", "“": '"', "”": '"'}


def speaks_unicode(stream: TextIO) -> bool:
    """Can it show every sign of ours?"""
    return (getattr(stream, "encoding", None) or "utf-8").lower().replace("-", "") in ("utf8", "utf16")


def wants_color(stream: TextIO, choice: str) -> bool:
    """``--color`` beats ``NO_COLOR`` beats ``FORCE_COLOR`` beats "is it a terminal"."""
    if choice != "auto" or os.environ.get("NO_COLOR"):
        return choice == "always"
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def printable(text: str) -> str:
    """Text from strangers without control characters: an escape sequence in a wheel's name stays harmless."""
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for c in text)


def spelled(text: str, encoding: str) -> str:
    """Text as an old code page (437, 850, 1252, 936 …) can say it: our own signs as ASCII, the rest as it goes."""
    return "".join(c if c.encode(encoding, "ignore") else _ASCII_SIGNS.get(c, "?") for c in text)


def shown_as(kind: str, state: str) -> tuple[str, str]:
    """How a state is shown: the mark of its status, and the words for it."""
    from rekindle.model.toml import read_beside  # help does without msgspec

    return read_beside(__file__, "states.toml", dict[str, dict[str, tuple[str, str]]])[kind][state]


def widest(texts: Iterable[str]) -> int:
    """The width of the column that they stand in."""
    return len(max(texts, key=len, default=""))


# Documents whose view stands in a module of another name.
_ELSEWHERE = {"adopt": "journey", "pack": "journey", "claims": "wheelhouse", "guard": "verify"}


def find_view(kind: type) -> Callable[[Any, Screen], None] | None:
    """The function that shows this kind of document to people. A document of ``model/plan.py`` is shown by the first
    function of ``render/plan.py`` (or of the module named in ``_ELSEWHERE``) that takes it and a screen: private,
    where nobody calls it by its name."""
    name = kind.__module__.rpartition(".")[2]
    try:
        module = importlib.import_module(f"rekindle.render.{_ELSEWHERE.get(name, name)}")
    except ModuleNotFoundError:
        return None
    views: list[Callable[[Any, Screen], None]] = [
        function
        for function in vars(module).values()
        if getattr(function, "__module__", "") == module.__name__  # not one that it merely uses
        and list(getattr(function, "__annotations__", {}).values())[:2] == [kind, Screen]
    ]
    return next(iter(views), None)


_COUNTED = (
    "cells|checks|combinations|commits|compilations|differences|files|keys|lines|machines|objects|packages|pages|projects"
    "|records|requests|settings|signatures|slots|targets|units|wheels"
)
_ONE_OF_MANY = re.compile(rf"(?<![\d.,:_-])1 ((?:native |project )?)({_COUNTED})\b")


def commands_as_called(text: str) -> str:
    """``text`` with its commands as a person can paste them here (``./rekindle plan``)."""
    called = os.environ.get(CALLED_AS)
    return _COMMAND.sub(lambda _: called, text) if called else text


def screen_text(text: str) -> str:
    """A sentence as it may go to a terminal: commands as Rekindle was called, what is counted once in the singular."""
    return _ONE_OF_MANY.sub(lambda match: f"1 {match[1]}{match[2][:-1]}", commands_as_called(printable(text)))


class Screen:
    """Where a view writes: colour, width and signs as the stream can show them."""

    def __init__(self, stream: TextIO, *, color: str = "auto", width: int | None = None, verbosity: int = 0) -> None:
        self.stream = stream
        self.color = wants_color(stream, color)
        # A pipe gets each row on one line, for grep and scripts; a person's screen is never wider than it is.
        self._live = stream.isatty()
        self.width = width or max(40, min(shutil.get_terminal_size().columns if self._live else 100, 120))
        self.verbosity = verbosity
        self._unicode = speaks_unicode(stream)

    def style(self, text: str, *styles: str) -> str:
        """The text in these styles, where colour is wanted."""
        if not self.color or not styles:
            return text
        return f"\x1b[{';'.join(_CODES[s] for s in styles)}m{text}\x1b[0m"

    def mark(self, status: str) -> str:
        """The sign of a status, as this stream can show it."""
        sign, style = MARKS[status]
        return self.style(sign if self._unicode else _ASCII_MARKS.get(sign, sign), style)

    def line(self, text: str = "") -> None:
        """One row as it stands, spelled so that the stream can carry it."""
        if not self._unicode:
            text = spelled(text, self.stream.encoding)
        self.stream.write(text.rstrip() + "\n")

    def verdict(self, status: str, text: str) -> None:
        """The answer first, in bold, behind the mark of its status."""
        rows = self._wrapped(screen_text(text), self.width - 2) if self._live else [screen_text(text)]
        self._hang(f"{self.mark(status)} ", [self.style(row, "bold") for row in rows], 2)

    def section(self, title: str) -> None:
        """A title below an empty line."""
        self.line()
        self.line(self.style(title, "bold"))

    def paragraph(self, text: str, *, indent: int = 2) -> None:
        """Sentences, wrapped and set in."""
        for piece in screen_text(text).splitlines() or [""]:
            self._hang(" " * indent, self._wrapped(piece, self.width - indent), indent)

    def bullet(
        self, text: str, *, status: str | None = None, indent: int = 2, below: Iterable[str | None] = ()
    ) -> None:
        """Wrapped text after a dash or the mark of a status; ``below`` it, further in, what more there is to say."""
        lead = self.mark(status) if status else "-"
        self._hang(f"{' ' * indent}{lead} ", self._wrapped(screen_text(text), self.width - indent - 2), indent + 2)
        for more in filter(None, below):
            self.paragraph(more, indent=indent + 4)

    def bullets(
        self, texts: Iterable[str], *, status: str | None = None, title: str = "", most: int | None = None
    ) -> None:
        """Each text as a bullet, below the title of a section where there is any; without -v at ``most`` so many."""
        every = list(texts)
        if every and title:
            self.section(title)
        shown = every if self.verbosity else every[:most]
        for text in shown:
            self.bullet(text, status=status)
        self.rest(len(every) - len(shown))

    def rest(self, left: int, how: str = "-v shows all") -> None:
        """How many a list leaves out, where it leaves out any."""
        if left > 0:
            self.bullet(f"and {left} more ({how})", status="skip")

    def entry(self, head: str, text: str, *, status: str) -> None:
        """A marked row whose text hangs under its own beginning: mark, head (already padded), text."""
        self._hang_text(f"  {self.mark(status)} {head} ", text, len(head) + 5)

    def hint(self, text: str) -> None:
        """A last soft line about what else there is."""
        for row in self._wrapped(screen_text(text), self.width - 2):
            self.line(self.style(f"  {row}", "dim"))

    def command(self, text: str, *, as_called: bool = True) -> None:
        """A line to paste: never wrapped, and under the name by which Rekindle was called (``./rekindle``)."""
        text = printable(text)
        self.line("  " + self.style(commands_as_called(text) if as_called else text, "cyan"))

    def commands(self, title: str, lines: Iterable[str], *, as_called: bool = True) -> None:
        """A section of lines to paste, where there are any."""
        for number, line in enumerate(lines):
            if number == 0:
                self.section(title)
            self.command(line, as_called=as_called)

    def causes(self, matches: Iterable[Match], word: str = "Cause") -> None:
        """What explain found, each with how it is fixed."""
        for match in matches:
            self.section(f"{word} ({match.confidence} confidence)")
            self.paragraph(match.cause)
            self.bullets(match.fix)

    def labels(self, rows: Iterable[tuple[str, str | None]], *, title: str = "") -> None:
        """Labels of one width, each with its text hanging beside it; what is not known is left out."""
        for name, text in self._known(rows, title):
            self._hang_text(f"  {self.style(name, 'dim')}  ", text, len(name) + 4)

    def places(self, rows: Iterable[tuple[str, str | None]], *, title: str = "") -> None:
        """Labels with whole paths, which can be copied, and clicked on terminals that are known to show links."""
        linked = self._live and self.color and any(os.environ.get(name) for name in _LINKING)
        for name, place in self._known(rows, title):
            shown = printable(place)
            if linked and shown == place and Path(place).is_absolute():
                shown = f"\x1b]8;;{Path(place).as_uri()}\x1b\\{shown}\x1b]8;;\x1b\\"
            self.line(f"  {name}  {shown}")

    def _known(self, rows: Iterable[tuple[str, str | None]], title: str) -> list[tuple[str, str]]:
        """The rows that say something, their names of one width, below the title of a section where there are any."""
        table = [(name, text) for name, text in rows if text]
        if table and title:
            self.section(title)
        width = widest(name for name, _ in table)
        return [(name.ljust(width), text) for name, text in table]

    def rows(
        self, rows: Iterable[Sequence[str]], *, title: str = "", statuses: Sequence[str] = (), most: int | None = None
    ) -> None:
        """Aligned columns, the last as long as it likes, with marks for ``statuses``; without -v ``most`` rows."""
        every = list(rows)
        table = [[screen_text(cell) for cell in row] for row in (every if self.verbosity else every[:most])]
        if not table:
            return
        if title:
            self.section(title)
        widths = [widest(column) for column in itertools.zip_longest(*table, fillvalue="")]
        for number, row in enumerate(table):
            lead = "".join(f"{cell.ljust(widths[i])}  " for i, cell in enumerate(row[:-1]))
            mark = f"{self.mark(statuses[number])} " if statuses else ""
            begin = len(lead) + (4 if statuses else 2)
            room = self.width - begin
            pieces = self._wrapped(row[-1], room) if self._live and room >= _NARROWEST else row[-1:]
            self._hang(f"  {mark}{lead}", pieces, begin)
        self.rest(len(every) - len(table))

    def facts(self, rows: Iterable[tuple[str, str | None]], *, title: str = "") -> None:
        """Labels and what is known under each; what is not known is left out."""
        self.rows([(name, text) for name, text in rows if text], title=title)

    def _hang_text(self, lead: str, text: str, begin: int) -> None:
        self._hang(lead, self._wrapped(screen_text(text), max(24, self.width - begin)), begin)

    def _hang(self, lead: str, rows: Sequence[str], begin: int) -> None:
        """The first row behind ``lead``, the others below it."""
        self.line(lead + rows[0])
        for row in rows[1:]:
            self.line(" " * begin + row)

    @staticmethod
    def _wrapped(text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
