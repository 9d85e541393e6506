"""Progress on standard error: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from rekindle.render.screen import printable, wants_color

if TYPE_CHECKING:
    from rekindle.model.progress import BuildView

PLAIN_EVERY_SECONDS = 15.0
LIVE_EVERY_SECONDS = 0.1
PANEL_EVERY_SECONDS = 0.25


class LineProgress:
    """Satisfies :class:`rekindle.model.progress.Progress`."""

    def __init__(self, stream: TextIO, *, color: str = "auto", quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._live = stream.isatty() and not quiet
        self._color = wants_color(stream, color)
        self._last = 0.0
        self._drawn = False
        self._height = 1
        self._name = ""

    def stage(self, name: str, detail: str = "") -> None:
        self._name = name
        self._last = time.monotonic()
        self._say(f"{name}{': ' + detail if detail else ''}", bold=len(name))

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        now = time.monotonic()
        if now - self._last < (LIVE_EVERY_SECONDS if self._live else PLAIN_EVERY_SECONDS):
            return
        self._last = now
        share = f"{100 * done / total:3.0f} %  " if total else f"{done:g}  " if done else ""
        if self._live:
            import shutil

            text = printable(f"  {share}{detail}")[: shutil.get_terminal_size().columns - 1]
            if self._height > 1:
                self.close()
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
            self._drawn = True
        else:
            name = "" if detail.startswith(self._name) else f"{self._name} " if share else f"{self._name}: "
            self._say(f"  {name}{share}{detail}")

    def panel(self, view: BuildView) -> None:
        """All compilers at once on a terminal; elsewhere a plain line now and then."""
        if not self._live:
            self.step(view.done, view.total, view.line)
            return
        now = time.monotonic()
        if now - self._last < PANEL_EVERY_SECONDS:
            return
        self._last = now
        import shutil

        from rekindle.render.panel import panel_lines

        size = shutil.get_terminal_size()
        plain = (getattr(self._stream, "encoding", None) or "utf-8").lower().replace("-", "") not in ("utf8", "utf16")
        lines = panel_lines(view, columns=size.columns, rows=size.lines, unicode=not plain)
        # Over the old one in one write, so that nothing flickers; what is left of a taller one is cleared.
        text = self._back() + "\n".join(f"{printable(line)}\x1b[K" for line in lines) + "\x1b[J"
        self._stream.write(text)
        self._stream.flush()
        self._drawn = True
        self._height = len(lines)

    def note(self, text: str) -> None:
        self._say(f"  {text}")

    def close(self) -> None:
        if self._drawn:
            self._stream.write(self._back() + "\x1b[J" if self._height > 1 else "\r\x1b[K")
            self._stream.flush()
            self._drawn = False
            self._height = 1

    def _back(self) -> str:
        """To the first column of the first line that is drawn."""
        return "\r" + (f"\x1b[{self._height - 1}A" if self._height > 1 else "")

    def _say(self, text: str, *, bold: int = 0) -> None:
        if self._quiet:
            return
        self.close()
        rows = self._rows(text.rstrip()) if self._live else [text.rstrip()]
        rows[0] = self._bold(rows[0][:bold]) + rows[0][bold:]
        self._stream.write("\n".join(rows) + "\n")
        self._stream.flush()

    def _rows(self, text: str) -> list[str]:
        """Wrapped between words on a terminal, the rest set in below its beginning."""
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        lead = " " * (len(text) - len(text.lstrip()))
        wrapped = textwrap.wrap(
            text.lstrip(),
            width,
            initial_indent=lead,
            subsequent_indent=f"{lead}  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        return wrapped or [""]

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._color and text else text
