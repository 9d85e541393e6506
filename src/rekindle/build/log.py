"""The log of a build: every line with the seconds since the start, whole, flushed, never half a line."""

from __future__ import annotations

import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType


class BuildLog:
    """Seconds are monotonic, so a clock that jumps does not spoil them; the head tells the wall clock once."""

    def __init__(self, path: Path, *, keep: int = 4000) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8", errors="replace", buffering=1)
        self._begun = time.monotonic()
        self.lines = 0
        self.recent: deque[str] = deque(maxlen=keep)
        self.write(f"rekindle build, {datetime.now(UTC).isoformat(timespec='seconds')}")

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    def write(self, line: str) -> None:
        self.recent.append(line)
        self.lines += 1
        self._file.write(f"[{self.seconds:9.2f}] {line}\n")

    def command(self, argv: tuple[str, ...] | list[str], cwd: Path) -> None:
        import shlex

        self.write(f"$ cd {shlex.quote(str(cwd))} && {shlex.join(argv)}")

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BuildLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def without_times(line: str) -> str:
    """A line of such a log as the tool printed it."""
    if line[:1] == "[" and line[10:12] == "] ":
        return line[12:]
    return line
