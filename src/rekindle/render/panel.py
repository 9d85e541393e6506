"""The build on one screen: a bar, a headline, and each compiler with its time and memory, the longest first."""

from __future__ import annotations

from rekindle.model.progress import BuildView, JobView
from rekindle.model.spoken import spoken_bytes, spoken_seconds

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
        line = f"  {spoken_seconds(job.seconds).rjust(11)}  {_memory(job).rjust(7)}  {job.name}"
        lines.append(line + next((text for text in _remarks(job) if len(line) + len(text) < columns), ""))
    if len(view.jobs) > room > 0:
        lines.append(f"  and {len(view.jobs) - room} more")
    return [line[: max(1, columns - 1)] for line in lines]


def _head(bar: str, words: list[str], columns: int) -> list[str]:
    """What does not fit beside the bar goes below it, as far to the right as it can stand."""
    lines = [[bar]]
    for word in words:
        if len("  ".join([*lines[-1], word])) + (2 if len(lines) > 1 else 0) >= columns and lines[-1] != [bar]:
            lines.append([])
        lines[-1].append(word)
    below = ["  ".join(line) for line in lines[1:]]
    room = max(2, min(len(bar) + 2, columns - 1 - max(map(len, below), default=0)))
    return ["  ".join(lines[0]), *(" " * room + line for line in below)]


def _memory(job: JobView) -> str:
    return spoken_bytes(job.bytes) if job.bytes >= 1e6 else ""


def _remarks(job: JobView) -> tuple[str, ...]:
    """The same in fewer and fewer words, for terminals that are narrower."""
    if job.paused:
        return "  (paused: waits for memory)", "  (paused)"
    if job.expected is not None and job.is_giant:
        about = f"about {spoken_seconds(job.expected)}"
        return (
            (f"  (a giant: {about})", f"  ({about})", "  (a giant)") if job.seconds < job.expected else ("  (a giant)",)
        )
    return ()
