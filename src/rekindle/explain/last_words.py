"""A log in whose words no pattern knows anything: its last line that speaks of trouble, so that it can at least be
quoted.

Nothing of it is a cause. Only the end of the log is looked at, and only what stands behind the last good step: builds
say "not found" and "failed" of a hundred things they do without.
"""

from __future__ import annotations

import re

from rekindle.explain.events import Event, Reading, Seen
from rekindle.explain.window import flatten

# How far from the end the line may stand.
_LINES = 20
_KEY = "plain/plain-error/last"
_TROUBLE = re.compile(
    r"\b(?:could not|couldn't|cannot|can't|unable to|not (?:be )?found|not (?:be )?installable|no candidates"
    r"|fail(?:ed|ure|s)|(?:is|are) missing|missing (?:on|from)|unsupported|not (?:supported|compatible|allowed|valid)"
    r"|refused|denied"
    r"|does ?n[o']t exist|mismatch(?:ed)?|incompatible|invalid|unresolved|conflict(?:s|ing)?|aborted|rejected|too old"
    r"|fatal|errors?|exception|crash(?:ed)?|corrupt(?:ed)?|illegal|expired)\b",
    re.IGNORECASE,
)
_NO_TROUBLE = re.compile(
    r"\b(?:0|no|zero|without) (?:\w+ )?(?:errors?|failures?|failed|conflicts?)\b"
    r"|\b(?:errors?|failures?|failed)[:=] ?0\b|\bpassed\b|\bskipp|\bwarning\b|- (?:not found|failed)$"
    r"|^(?:--|checking |looking for|performing |note:|info)",
    re.IGNORECASE,
)
_MILESTONES = ("configured", "built", "installed", "went-on")


def add_last_words(reading: Reading) -> None:
    """Adds the event of that line where nothing else was seen."""
    if reading.rules or reading.forms:
        return
    good = max((seen.last.line for name in _MILESTONES if (seen := reading.signals.get(name)) and seen.last), default=0)
    lines = reading.tail.splitlines()
    for back, line in enumerate(reversed(lines[-_LINES:])):
        number = reading.lines - back
        text = flatten(line)
        if number <= good:
            return
        if _TROUBLE.search(text) and not _NO_TROUBLE.search(text):
            said = line.strip()[:300]
            event = Event(
                line=number, values={"message": text[:240]}, evidence=said, text=text, around=text, after=text,
                way="@plain-error", head=said[:60],
            )  # fmt: skip
            reading.forms[_KEY] = Seen(count=1, kept=[event], last=event)
            return
