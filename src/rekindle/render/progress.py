"""Progress on standard error: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from rekindle.render.screen import printable, wants_color

PLAIN_EVERY_SECONDS = 15.0
LIVE_EVERY_SECONDS = 0.1


class LineProgress:
    """Satisfies :class:`rekindle.model.progress.Progress`."""

    def __init__(self, stream: TextIO, *, color: str = "auto", quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet
        self._live = stream.isatty() and not quiet
        self._color = wants_color(stream, color)
        self._last = 0.0
        self._drawn = False
        self._name = ""

    def stage(self, name: str, detail: str = "") -> None:
        self._name = name
        self._last = time.monotonic()
        self._say(f"{self._bold(name)}{': ' + detail if detail else ''}")

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        now = time.monotonic()
        if now - self._last < (LIVE_EVERY_SECONDS if self._live else PLAIN_EVERY_SECONDS):
            return
        self._last = now
        share = f"{100 * done / total:3.0f} %" if total else f"{done:g}"
        if self._live:
            import shutil

            text = printable(f"  {share}  {detail}")[: shutil.get_terminal_size().columns - 1]
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
            self._drawn = True
        else:
            self._say(f"  {self._name} {share}  {detail}")

    def note(self, text: str) -> None:
        self._say(f"  {text}")

    def close(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False

    def _say(self, text: str) -> None:
        if self._quiet:
            return
        self.close()
        self._stream.write(text.rstrip() + "\n")
        self._stream.flush()

    def _bold(self, text: str) -> str:
        return f"\x1b[1m{text}\x1b[0m" if self._color else text
