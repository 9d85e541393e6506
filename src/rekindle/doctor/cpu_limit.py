"""How many processors this process may really use: control groups (``docker --cpus``) and its affinity."""

from __future__ import annotations

import re

from rekindle.host.asking import Asking
from rekindle.host.cgroups import groups_of
from rekindle.host.text import text_of


def allowed_processors(host: Asking) -> float | None:
    """The smallest of quota and affinity; None where nothing limits or nobody says (Windows)."""
    if host.system != "linux":
        return None
    found = [limit for limit in (_quota(host), _affinity(host)) if limit is not None]
    return min(found, default=None)


def _quota(host: Asking) -> float | None:
    best: float | None = None
    for version, place in groups_of(host.read, "cpu"):
        if version == 2:
            words = text_of(host.read(f"{place}/cpu.max")).split()
        else:
            words = [text_of(host.read(f"{place}/cpu.cfs_{name}_us")).strip() for name in ("quota", "period")]
        # "max" (v2) and -1 (v1) mean: no limit.
        if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]) > 0:
            share = round(int(words[0]) / int(words[1]), 2)
            best = share if best is None else min(best, share)
    return best


def _affinity(host: Asking) -> float | None:
    match = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)", text_of(host.read("/proc/self/status")), re.MULTILINE)
    if match is None:
        return None
    count = 0
    for part in match[1].split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            count += int(last or first) - int(first) + 1
    return float(count) if count > 0 else None
