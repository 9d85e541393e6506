"""A real terminal for tests: a pseudo-terminal of a given size, and what a program wrote on it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def session(
    argv: Sequence[str],
    *,
    columns: int,
    rows: int = 40,
    answers: Sequence[tuple[str, str]] = (),
    interrupt_at: str | None = None,
    limit: float = 120.0,
    env: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Exit code and everything written, escapes included. ``answers`` are typed when their words have been seen;
    Ctrl-C is pressed when ``interrupt_at`` has."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    plain = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        list(argv), stdin=inner, stdout=inner, stderr=inner, start_new_session=True,
        env={**plain, "TERM": "xterm-256color", **(env or {})}, preexec_fn=_take_terminal,
    )  # fmt: skip
    os.close(inner)
    said = b""
    waiting = list(answers)
    deadline = time.monotonic() + limit
    try:
        while time.monotonic() < deadline:
            ready, _, _ = select.select([outer], [], [], 0.2)
            if ready:
                try:
                    piece = os.read(outer, 65536)
                except OSError:  # Linux: the other side is closed
                    break
                if not piece:
                    break
                said += piece
            elif process.poll() is not None:
                break
            text = said.decode("utf-8", "replace")
            if waiting and waiting[0][0] in text:
                os.write(outer, waiting.pop(0)[1].encode() + b"\n")
            if interrupt_at and interrupt_at in text:
                interrupt_at = None
                os.write(outer, b"\x03")
        return process.wait(timeout=max(0.1, deadline - time.monotonic())), said.decode("utf-8", "replace")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(outer)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def rekindle(
    *argv: str, columns: int, answers: Sequence[tuple[str, str]] = (), interrupt_at: str | None = None, **env: str
) -> tuple[int, str]:
    words = [sys.executable, "-m", "rekindle", *argv]
    return session(words, columns=columns, answers=answers, interrupt_at=interrupt_at, env=env)


def shown(text: str) -> list[str]:
    """The lines that remain on the screen: a line drawn again replaces what it covered."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        last = line.split("\r")[-1] if "\r" in line else line
        lines.append(ESCAPES.sub("", last).rstrip())
    return lines


def screen(text: str) -> list[str]:
    """What stands on the screen at the end, for programs that go up and draw over what they wrote."""
    lines, row, column = [""], 0, 0
    for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\r":
            column = 0
        elif piece.startswith("\x1b["):
            count = int(piece[2:-1] or 1) if piece[2:-1].isdigit() or not piece[2:-1] else 0
            if piece.endswith("A"):
                row = max(0, row - count)
            elif piece in ("\x1b[K", "\x1b[J"):
                lines[row] = lines[row][:column]
                if piece.endswith("J"):
                    del lines[row + 1 :]
        else:
            lines[row] = lines[row][:column].ljust(column) + piece + lines[row][column + len(piece) :]
            column += len(piece)
    return [line.rstrip() for line in lines]
