"""Why pip (or uv) failed, from all that it printed."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping

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
