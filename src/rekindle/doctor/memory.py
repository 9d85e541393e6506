"""How much memory this process may really use: the smallest of the machine, its container and its job.

A container's limits are files: cgroup v2 ``memory.max`` and ``memory.high``, cgroup v1 ``memory.limit_in_bytes``, at
every level from the process's own group up to the root that is mounted here.
"""

from __future__ import annotations

import msgspec

from rekindle.host.asking import Asking
from rekindle.host.cgroups import groups_of, memory_limit
from rekindle.host.text import lines_of


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    usable: int | None = None
    physical: int | None = None
    swap: int | None = None
    limited_by: str | None = None


def probe_memory(host: Asking) -> Limits:
    if host.system != "linux":
        return _by_call(host)
    meminfo: dict[str, int] = {}
    for line in lines_of(host.read("/proc/meminfo")):
        name, _, rest = line.partition(":")
        parts = rest.split()
        if parts and parts[0].isdigit():
            meminfo[name] = int(parts[0]) * (1024 if parts[1:] == ["kB"] else 1)
    physical = meminfo.get("MemTotal")
    swap = meminfo.get("SwapTotal")
    if physical is None:
        fallback = _by_call(host)
        physical, swap = fallback.physical, fallback.swap
    limit = cgroup_limit(host)
    if limit is not None and (physical is None or limit[0] < physical):
        return Limits(usable=limit[0], physical=physical, swap=swap, limited_by=limit[1])
    return Limits(usable=physical, physical=physical, swap=swap)


def _by_call(host: Asking) -> Limits:
    memory = host.memory()
    if memory is None:
        host.gap("memory", "the system did not say")
        return Limits()
    usable, why = memory.total, None
    if memory.job_limit is not None and memory.job_limit < usable:
        usable, why = memory.job_limit, "job object"
    if memory.commit_limit is not None and memory.commit_limit < usable:
        usable, why = memory.commit_limit, "commit limit"
    return Limits(usable=usable, physical=memory.total, swap=memory.swap, limited_by=why)


def cgroup_limit(host: Asking) -> tuple[int, str] | None:
    """The smallest limit above this process, and which kind of group said so."""
    best: tuple[int, str] | None = None
    for version, place in groups_of(host.read, "memory"):
        limit = memory_limit(host.read, version, place)
        if limit is not None and (best is None or limit < best[0]):
            best = limit, f"cgroup v{version}"
    return best
