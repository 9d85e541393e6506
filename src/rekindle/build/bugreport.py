"""A failed build as a text that can be posted: what was built with what, the error, and nobody's names in it."""

from __future__ import annotations

import platform
from pathlib import Path

from rekindle import __version__
from rekindle.build.log import without_times
from rekindle.host.redact import redactor_here
from rekindle.model.build import BuildFailure

TAIL_LINES = 60


def render_bug_report(failure: BuildFailure) -> str:
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
    return redactor_here().text("\n".join(lines))


def _tail(log: str | None) -> list[str]:
    try:
        text = Path(log or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [without_times(line)[:1000] for line in text.splitlines()[-TAIL_LINES:]]
