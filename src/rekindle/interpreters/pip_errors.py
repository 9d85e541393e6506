"""Why pip (or uv) failed, from all that it printed."""

from __future__ import annotations

import os
from collections.abc import Iterable, MutableMapping, Sequence

PATIENCE = "300"
WAIT_LONGER = (
    "the index is slow: the same command goes on; PIP_DEFAULT_TIMEOUT=900 (uv: UV_HTTP_TIMEOUT=900) waits longer"
)
_WAITS = ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT")
_GAVE_UP = ("timed out", "network timeout")


def telling_lines(text: str) -> list[str]:
    """The lines with its errors, or all that say anything where none is marked so; empty where it said nothing."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [line.removeprefix("ERROR: ") for line in lines if "ERROR" in line] or lines


def gave_up_waiting(lines: Iterable[str]) -> bool:
    """Was an answer of the index awaited in vain? A mirror that first fetches a torch itself takes longer than pip's 15
    seconds, and pip's own repetitions wait no longer than that."""
    return any(words in line.lower() for line in lines for words in _GAVE_UP)


def with_patience(env: MutableMapping[str, str]) -> bool:
    """Let an installer with this environment wait longer; False where it was told how long."""
    if any(name in env for name in _WAITS):
        return False
    env.update(dict.fromkeys(_WAITS, PATIENCE))
    return True


def reason_in(lines: Sequence[str]) -> str:
    """One line that says why: pip's last ERROR, uv's whole sentence, which it draws over several lines, or the last
    line that speaks of an error."""
    if errors := [line for line in lines if line.startswith("ERROR:")]:
        # A trouble that pip does not know itself is followed by a traceback, whose last line names it.
        return (lines if errors[-1].strip() == "ERROR: Exception:" else errors)[-1].strip()
    starts = (number for number, line in enumerate(lines) if line.lstrip().lower().startswith(("error", "×")))
    first = next(starts, None)
    if first is not None:
        return " ".join(line.strip(" ×╰╭│─▶├└→") for line in lines[first:])[:400]
    telling = [line for line in lines if "error" in line.lower()] or list(lines) or ["it said nothing"]
    return telling[-1].strip()


def known_remedy(lines: Sequence[str]) -> str | None:
    """What helps against the usual troubles of an installer; None for any other."""
    text = " ".join(lines)
    if "ensurepip" in text or "No module named venv" in text:
        how = "install uv or the Python of python.org" if os.name == "nt" else "apt install python3-venv, or install uv"
        return f"this Python cannot make environments: {how}"
    if "No space left" in text:
        return "free some disk space, or set TMPDIR to a larger disk"
    if any(words in text for words in ("Failed to read from zip file", "invalid package format")):
        return "the file is no whole wheel: download or build it again"
    return None
