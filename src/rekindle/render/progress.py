"""Progress on standard error: one live line on a terminal, a plain line now and then elsewhere; a build as a panel."""

from __future__ import annotations

import shutil
import textwrap
import time
from typing import TYPE_CHECKING, TextIO

from rekindle.model.spoken import spoken_bytes, spoken_seconds
from rekindle.render.screen import printable, screen_text, speaks_unicode, wants_color, widest

if TYPE_CHECKING:
    from rekindle.model.progress import BuildView, JobView


MAX_JOBS = 8


def panel_lines(view: BuildView, *, columns: int, rows: int, unicode: bool = True) -> list[str]:
    """At most ``rows`` lines, none wider than ``columns``."""
    full, empty = ("█", "░") if unicode else ("#", ".")
    share = view.done / view.total if view.total else 0.0
    width = max(10, min(30, columns - 50))
    filled = round(width * share)
    lines = _head(f"  {full * filled}{empty * (width - filled)} {100 * share:3.0f} %", view.words, columns)
    if rows <= 4:
        del lines[1:]
    room = max(0, min(MAX_JOBS, rows - 2 - len(lines)))
    for job in view.jobs[:room]:
        memory = spoken_bytes(job.bytes) if job.bytes >= 1e6 else ""
        line = f"  {spoken_seconds(job.seconds).rjust(11)}  {memory.rjust(7)}  {job.name}"
        lines.append(line + next((text for text in _remarks(job) if len(line) + len(text) < columns), ""))
    if len(view.jobs) > room > 0:
        lines.append(f"  and {len(view.jobs) - room} more")
    return [line[: columns - 1] for line in lines]


def _head(bar: str, words: list[str], columns: int) -> list[str]:
    """What does not fit beside the bar goes below it, as far to the right as it can stand."""
    lines = [[bar]]
    for word in words:
        if len("  ".join([*lines[-1], word])) + (2 if len(lines) > 1 else 0) >= columns and lines[-1] != [bar]:
            lines.append([])
        lines[-1].append(word)
    below = ["  ".join(line) for line in lines[1:]]
    room = max(2, min(len(bar) + 2, columns - 1 - widest(below)))
    return ["  ".join(lines[0]), *(" " * room + line for line in below)]


def _remarks(job: JobView) -> tuple[str, ...]:
    """The same in fewer and fewer words, for terminals that are narrower."""
    if job.paused:
        return "  (paused: waits for memory)", "  (paused)"
    if job.expected is None or not job.is_giant:
        return ()
    about = f"about {spoken_seconds(job.expected)}"
    return (f"  (a giant: {about})", f"  ({about})", "  (a giant)") if job.seconds < job.expected else ("  (a giant)",)


PLAIN_EVERY_SECONDS = 15.0
LIVE_EVERY_SECONDS = 0.1
PANEL_EVERY_SECONDS = 0.25


class LineProgress:
    """Satisfies :class:`rekindle.model.progress.Progress`."""

    def __init__(self, stream: TextIO, *, color: str = "auto", quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self.live = stream.isatty() and not quiet
        self._color = wants_color(stream, color)
        self._last = float("-inf")
        self._height = 0  # lines that are drawn in place
        self._name = ""

    def stage(self, name: str, detail: str = "") -> None:
        self._name = name
        self._last = time.monotonic()
        self.say(f"{name}{': ' + detail if detail else ''}", bold=len(name))

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        """How far it is: in place on a terminal, elsewhere a line now and then."""
        now = time.monotonic()
        if now - self._last < (LIVE_EVERY_SECONDS if self.live else PLAIN_EVERY_SECONDS):
            return
        self._last = now
        share = f"{100 * done / total:3.0f} %  " if total else f"{done:g}  " if done else ""
        if self.live:
            self.draw([f"  {share}{detail}"[: shutil.get_terminal_size().columns - 1]])
        else:
            name = "" if detail.startswith(self._name) else f"{self._name} " if share else f"{self._name}: "
            self.say(f"  {name}{share}{detail}")

    def panel(self, view: BuildView) -> None:
        """All compilers at once on a terminal; elsewhere a plain line now and then."""
        if not self.live:
            self.step(view.done, view.total, view.line)
            return
        now = time.monotonic()
        if now - self._last < PANEL_EVERY_SECONDS:
            return
        self._last = now
        size = shutil.get_terminal_size()
        self.draw(panel_lines(view, columns=size.columns, rows=size.lines, unicode=speaks_unicode(self._stream)))

    def note(self, text: str) -> None:
        self.say(f"  {text}")

    def close(self) -> None:
        if self._height:
            self.draw([])

    def draw(self, lines: list[str]) -> None:
        """Over what is drawn, in one write, so that nothing flickers; what is left of a taller one is cleared."""
        back = f"\r\x1b[{self._height - 1}A" if self._height > 1 else "\r"
        self._stream.write(back + "\n".join(f"{printable(line)}\x1b[K" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._height = len(lines)

    def say(self, text: str, *, bold: int = 0) -> None:
        if self._quiet:
            return
        self.close()
        text = screen_text(text.rstrip())
        rows = [text]
        if self.live:  # wrapped between words, the rest set in below its beginning
            lead = " " * (len(text) - len(text.lstrip()))
            width = shutil.get_terminal_size().columns
            wrapper = textwrap.TextWrapper(width, lead, f"{lead}  ", break_long_words=False, break_on_hyphens=False)
            rows = wrapper.wrap(text.lstrip()) or [""]
        if self._color and bold:
            rows[0] = f"\x1b[1m{rows[0][:bold]}\x1b[0m{rows[0][bold:]}"
        self._stream.write("\n".join(rows) + "\n")
        self._stream.flush()
