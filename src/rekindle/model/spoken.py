"""Sizes, durations, ages and sentences as people say them: ``3.4 to 6.7 hours``, ``205 MB``, ``2 days``."""

import re
from datetime import date

from rekindle.errors import BadInput

# Below this no number is told: it would be wrong before it is read.
ALMOST_SECONDS = 10.0
_SMALL_NAMES = ("torch ", "glibc ", "nvcc ", "gcc ", "cuDNN ", "rocBLAS ")
GIB = 1 << 30
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(?:([kmgt])(?:i?b)?|b)?", re.IGNORECASE)
_BYTES = {"k": 1 << 10, "m": 1 << 20, "g": GIB, "t": 1 << 40}


def spoken_bytes(count: float) -> str:
    """Decimal, as downloads and disks are sold: ``205 MB``, ``2.5 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * size:
            shown = count / size
            return f"{shown:.1f} {unit}" if shown < 9.95 and unit != "kB" else f"{shown:.0f} {unit}"
    return f"{count:.0f} bytes"


def spoken_minutes(low: float, high: float) -> str:
    """A range in one unit: ``40 to 90 minutes``, ``3.4 to 6.7 hours``, ``2 to 3 days``."""
    unit, size = _unit(high * 60)
    first, last = _count(low * 60 / size), _count(high * 60 / size)
    if first == last:
        return f"{last} {unit if last != '1' else unit[:-1]}"
    return f"{first} to {last} {unit}"


def spoken_seconds(seconds: float) -> str:
    """One duration: ``0.4 s``, ``42 s``, ``3 min 20 s``, ``5 h 04 min``, ``2 days``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if (whole := round(seconds)) < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest:02d} s" if minutes < 10 and rest else f"{round(whole / 60)} min"
    if whole < 2 * 86400:
        hours, rest = divmod(round(whole / 60), 60)
        return f"{hours} h {rest:02d} min"
    return f"{round(whole / 86400)} days"


def spoken_age(seconds: float) -> str:
    """How long ago, roughly: ``just now``, ``5 minutes``, ``3 hours``, ``12 days``."""
    if seconds < 60:
        return "just now"
    unit, size = _unit(seconds)
    count = int(seconds // size)
    return f"{count} {unit if count != 1 else unit[:-1]} ago"


def spoken_months(first: str, last: str) -> str:
    """How long from one date (``2025-06-04``) to another: ``17 months``, from two years on ``2.5 years``."""
    months = round((date.fromisoformat(last) - date.fromisoformat(first)).days / 30.44)
    if months < 24:
        return f"{months} month{'' if months == 1 else 's'}"
    return f"{round(months / 12, 1):g} years"


def spoken_left(seconds: float) -> str:
    """A time left, no finer than it can be known: an estimate near its end says so instead of a number."""
    if seconds < ALMOST_SECONDS:
        return "almost done"
    if seconds < 90:
        return f"about {round(seconds / 10) * 10:.0f} s left"
    if seconds < 5400:
        minutes = round(seconds / 60)
        return f"about {minutes} minute{'s' if minutes != 1 else ''} left"
    hours = seconds / 3600
    return f"about {_count(hours)} hours left" if hours < 36 else f"about {round(hours / 24)} days left"


def _unit(seconds: float) -> tuple[str, float]:
    return ("days", 86400.0) if seconds >= 2 * 86400 else ("hours", 3600.0) if seconds >= 7200 else ("minutes", 60.0)


def _count(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if number < 9.95 else f"{number:.0f}"


def capital(text: str) -> str:
    """The beginning of a sentence, unless it is a name that has no capital.

    >>> capital("the driver is too old"), capital("gcc 15 is too new"), capital("")
    ('The driver is too old', 'gcc 15 is too new', '')
    """
    return text if text.startswith(_SMALL_NAMES) else text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """With a capital and one full stop.

    >>> sentence("make room, or choose another disk"), sentence("Do not.")
    ('Make room, or choose another disk.', 'Do not.')
    """
    return capital(text).rstrip(".") + "."


def parse_size(text: str) -> int:
    """Bytes. ``500b`` is the only way to write bytes themselves."""
    trimmed = text.strip()
    if (match := _SIZE.fullmatch(trimmed)) is None:
        raise BadInput(f"{text!r} is no size", remedy="write for example 16G (or just 16) or 1500M")
    unit = (match[2] or "").lower()
    factor = _BYTES.get(unit, 1 if trimmed[-1] in "bB" else GIB)
    return int(float(match[1]) * factor)


def gib(count: float | None) -> float | None:
    """Bytes as GiB with one decimal."""
    return None if count is None else round(count / GIB, 1)
