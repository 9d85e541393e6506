"""A failed build as a text that can be posted: what was built with what, the error, and nobody's names in it."""

from __future__ import annotations

import getpass
import platform
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from rekindle import __version__
from rekindle.build.log import without_times
from rekindle.host.protocol import Host
from rekindle.model.build import BuildFailure

_SECRET = re.compile(r"(?i)(\b[\w-]*(?:token|secret|passw(?:or)?d|api[_-]?key|credential)[\w-]*\s*[=:]\s*)\S+")
_USER_IN_URL = re.compile(r"(\w+://)[^/\s@]+@")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")
TAIL_LINES = 60


def redact(text: str, *, names: Iterable[str]) -> str:
    """Home, user and host by placeholders; secrets, addresses and users in URLs gone."""
    text = _SECRET.sub(r"\1<removed>", text)
    text = _USER_IN_URL.sub(r"\1", text)
    text = _MAIL.sub("<address>", text)
    for name in sorted(filter(None, names), key=len, reverse=True):
        replacement = "~" if name.startswith(("/", "\\")) or name[1:3] == ":\\" else "<name>"
        # Whole words only: a user called "c" must not eat every c.
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", replacement, text)
    return text


def own_names(host: Host) -> list[str]:
    home = str(Path.home())
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = ""
    generic = ("root", "user", "runner", "ubuntu", "build", "localhost")
    return [home, *(name for name in (user, socket.gethostname()) if name.lower() not in generic)]


def render_bug_report(failure: BuildFailure, host: Host) -> str:
    lines = [
        f"# {failure.project}: {failure.phase} failed",
        "",
        failure.message,
        "",
        f"rekindle {__version__}, {platform.system()} {platform.release()} {platform.machine()}",
        "",
        "## Command",
        failure.command or "none",
        "",
        "## First error",
        *failure.error,
        "",
        "## Causes known to rekindle",
        *([f"- {match.id} ({match.confidence}): {match.cause}" for match in failure.diagnosis.matches] or ["none"]),
        "",
        "## Planned and configured",
        *(f"- {fact.name}: planned {fact.wanted}, configured {fact.found}" for fact in failure.facts),
        "",
        "## End of the log",
        *_tail(failure.log),
        "",
    ]
    return redact("\n".join(lines), names=own_names(host))


def _tail(log: str | None) -> list[str]:
    try:
        text = Path(log or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [without_times(line)[:1000] for line in text.splitlines()[-TAIL_LINES:]]
