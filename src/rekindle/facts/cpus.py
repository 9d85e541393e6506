"""From what people call a CPU to its microarchitecture and features; from a distribution to its glibc."""

from __future__ import annotations

import functools
import re

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.facts import Distro, Microarchitecture

_WORDS = re.compile(r"[a-z]+|\d+(?:\.\d+)*")


@functools.lru_cache(maxsize=4)
def _patterns(facts: Facts) -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(row.match), row.microarchitecture) for row in facts.cpu.name)


def find_cpu(text: str, facts: Facts) -> str:
    """``ivybridge`` of "Xeon E5-2690 v2"; :class:`BadInput` with a suggestion if nothing fits."""
    lowered = " ".join(text.lower().replace("(r)", " ").replace("(tm)", " ").split())
    table = facts.cpu.microarchitecture
    for spelling in (lowered, re.sub(r"[\s-]+", "_", lowered), re.sub(r"[\s_-]+", "", lowered)):
        if spelling in table:
            return spelling
    if lowered in ("arm64", "armv8", "armv8-a"):
        return "aarch64"
    if lowered in ("amd64", "x64", "x86-64"):
        return "x86_64"
    for pattern, name in _patterns(facts):
        if pattern.search(lowered):
            return name
    import difflib

    near = difflib.get_close_matches(lowered, table, n=2)
    hint = (
        "did you mean " + " or ".join(near) + "?" if near else "name its microarchitecture (ivybridge, zen2, aarch64)"
    )
    raise BadInput(f"no CPU called {text!r} is known", remedy=hint)


def microarchitecture(name: str | None, facts: Facts) -> Microarchitecture | None:
    if not name:  # nothing to look up: spare the start-up the table
        return None
    return facts.cpu.microarchitecture.get(name)


def find_distro(text: str, facts: Facts) -> Distro | None:
    """``ubuntu-22.04``, ``Ubuntu 22.04.3 LTS`` → its row; None where the version is unknown or rolling.

    A row without a number (Alpine, where no version has glibc) counts for every version.
    """
    words = _WORDS.findall(text.lower())
    if not words:
        return None
    version = next((word for word in words if word[0].isdigit()), "")
    for row in facts.distros.distro:
        name, _, number = row.name.partition(" ")
        if name in words and (not number or version == number or version.startswith(number + ".")):
            return row
    return None
