"""How much memory this process may really use: the smallest of the machine, its container and its job.

A container's limit is a file: cgroup v2 ``memory.max``, cgroup v1 ``memory.limit_in_bytes``, at every level
from the process's own group up to the root that is mounted here.
"""

from __future__ import annotations

import msgspec

from rekindle.doctor.probing import Asking
from rekindle.doctor.text import lines_of, text_of

# cgroup v1 says "no limit" as a page-rounded LONG_MAX; nothing real comes near.
_NO_LIMIT = 1 << 60
_DEFAULT_ROOTS = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}


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
    """The smallest limit above this process, and which file said so."""
    best: tuple[int, str] | None = None
    mounts = _mounts(host)
    for line in lines_of(host.read("/proc/self/cgroup")):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            key, name = "", "memory.max"
        elif "memory" in controllers.split(","):
            key, name = "memory", "memory.limit_in_bytes"
        else:
            continue
        root, inside = mounts.get(key, (_DEFAULT_ROOTS[key], "/"))
        # Inside a container the path may be the one outside; then only the mounted root is ours to read.
        below = path.removeprefix(inside.rstrip("/")) if path.startswith(inside) else ""
        for place in _upwards(root, below):
            value = text_of(host.read(f"{place}/{name}")).strip()
            if value.isdigit() and int(value) < _NO_LIMIT and (best is None or int(value) < best[0]):
                best = int(value), f"cgroup v{2 if key == '' else 1}"
    return best


def _upwards(root: str, below: str) -> list[str]:
    parts = [part for part in below.split("/") if part and part != ".."]
    return ["/".join([root.rstrip("/"), *parts[:count]]) for count in range(len(parts), -1, -1)]


def _mounts(host: Asking) -> dict[str, tuple[str, str]]:
    """Where the cgroup hierarchies are mounted, and which part of each is the mounted root."""
    found: dict[str, tuple[str, str]] = {}
    for line in lines_of(host.read("/proc/self/mountinfo")):
        left, mark, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if not mark or len(fields) < 5 or not kind:
            continue
        if kind[0] == "cgroup2":
            found.setdefault("", (fields[4], fields[3]))
        elif kind[0] == "cgroup" and "memory" in kind[-1].split(","):
            found.setdefault("memory", (fields[4], fields[3]))
    return found
